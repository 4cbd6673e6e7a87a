"""The texts of a snapshot to search in: questions at once, answers as they are read."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool

from dph.errors import DataError
from dph.results.view.haystack import Haystack
from dph.results.view.query import Query
from dph.results.view.set_index import SetIndex
from dph.tasks.prompt_text import prompt_text

_BATCH = 8192


class Texts:
    """Where words are looked for; ``read`` of ``parts`` files of answers have been read."""

    def __init__(self, sets: Mapping[str, SetIndex], samples: Mapping[str, Path]) -> None:
        self._sets, self._samples = sets, samples
        self._questions = {name: _questions(of) for name, of in sets.items()}
        self._answers: dict[tuple[str, str], Haystack] = {}
        self.read, self.parts = 0, len(samples)
        self._found = lru_cache(maxsize=64)(self._look)

    def read_answers(self) -> Iterator[None]:
        """Read the answers of one run after the other, a piece at each step.

        Raises:
            DataError: a file is damaged.
        """
        for key, path in self._samples.items():
            stacks: dict[str, Haystack] = {}
            yield from _read(path, stacks)
            for name, stack in stacks.items():
                stack.flush()
                self._answers[name, key] = stack
            self.read += 1

    def having(self, query: Query) -> Bool[np.ndarray, "problems"] | None:
        """The problems that have every word of a query; None where nothing is looked for."""
        if not query.words:
            return None
        read = self.read if query.answers else 0
        found = (self._found(query.set, word.lower(), query.answers, read) for word in query.words)
        return np.asarray(np.logical_and.reduce(list(found)))

    def _look(
        self, name: str, word: str, answers: bool, _read: int
    ) -> Bool[np.ndarray, "problems"]:
        found = self._questions[name].having(word)
        if not answers:
            return found
        for key, run in self._sets[name].runs.items():
            stack = self._answers.get((name, key))
            if stack is not None:
                there = run.at >= 0
                known = np.zeros(len(stack), dtype=bool)
                known[run.at[there]] = found[there]
                found = found | (there & stack.having(word, known)[run.at])
        return found


def _questions(of: SetIndex) -> Haystack:
    """Ids, prompts, and the fields of problems, the gold answer among them."""
    stack = Haystack()
    for problem_id in of.ids:
        problem = of.problems.get(problem_id)
        texts = [problem_id]
        if problem is not None:
            texts.append(prompt_text(problem))
            texts += [v if isinstance(v, str) else json.dumps(v) for v in problem.answer.values()]
        stack.add(texts)
    stack.flush()
    return stack


def _read(path: Path, stacks: dict[str, Haystack]) -> Iterator[None]:
    """Put the texts of a file into a stack for each set, a problem's answers together."""
    problem: tuple[str, str] | None = None
    texts: list[str] = []
    try:
        columns = ["set", "problem_id", "text"]
        for batch in pq.ParquetFile(path).iter_batches(_BATCH, columns=columns):
            for row in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True):
                if problem != row[:2]:
                    if problem is not None:
                        stacks.setdefault(problem[0], Haystack()).add(texts)
                    problem, texts = row[:2], []
                texts.append(row[2])
            yield
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if problem is not None:
        stacks.setdefault(problem[0], Haystack()).add(texts)
