"""A chunk of seeds: prompts, answers, verdicts, and second answers to what would be kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dph._base.randomness import derived_seed
from dph.corpus.synth.draft import Draft
from dph.corpus.synth.functions import FunctionJudge
from dph.corpus.synth.generators import Generator
from dph.corpus.synth.judged import Judged
from dph.corpus.synth.prompts import PROMPTS, SQL
from dph.corpus.synth.queries import Query, QueryJudge
from dph.corpus.synth.second import disagreements, second_prompt
from dph.corpus.synth.seeds import Seed
from dph.tasks.verifiers.code.verifier import CodeVerifier
from dph.tasks.verifiers.sql.verifier import SQLVerifier

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An answer and what became of it; ``row`` is what is kept of it, empty if it is dropped."""

    seed_id: str
    sample: int
    answer: str
    reason: str
    note: str
    text: str
    row: Mapping[str, Any]


class Writer(Protocol):
    """Makes rows of one kind."""

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[Written]:
        """What was written for each seed and sample index."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionWriter:
    """Writes functions with tests.

    Args:
        kind: of ``prompts.PROMPTS``.
        generator: who writes.
        judge: what is kept.
        verifier: what compares second answers; None: there are none.
    """

    kind: str
    generator: Generator
    judge: FunctionJudge
    verifier: CodeVerifier | None

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[Written]:
        """As ``Writer``."""
        answers = _answers(self.generator, self.kind, asked, seed)
        judged = self.judge(answers, [one.uses for one, _ in asked])
        against = [""] * len(judged)
        kept = {p: one.draft for p, one in enumerate(judged) if one.draft and not one.reason}
        if self.verifier is not None and kept:
            prompts = [second_prompt(draft) for draft in kept.values()]
            seeds = [
                derived_seed(seed, "second", asked[place][0].id, asked[place][1]) for place in kept
            ]
            second = self.generator(prompts, seeds)
            found = disagreements(self.verifier, list(kept.values()), second)
            for place, what in zip(kept, found, strict=True):
                against[place] = what
        return [
            _written(
                place,
                answer,
                replace(verdict, reason="disputed", note=other) if other else verdict,
                _function_row,
                Draft.text,
            )
            for place, answer, verdict, other in zip(asked, answers, judged, against, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class QueryWriter:
    """Writes questions about databases with queries."""

    generator: Generator
    judge: QueryJudge

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[Written]:
        """As ``Writer``."""
        answers = _answers(self.generator, SQL, asked, seed)
        judged = self.judge(answers, [one.database for one, _ in asked])
        return [
            _written(place, answer, verdict, partial(_query_row, place[0].text), _query_text)
            for place, answer, verdict in zip(asked, answers, judged, strict=True)
        ]


@contextmanager
def open_writer(
    kind: str,
    generator: Generator,
    *,
    databases: Path | None,
    workers: int,
    second: bool,
    survivors: float,
    timeout: float,
) -> Iterator[Writer]:
    """The writer of rows of ``kind``, with the processes that execute them.

    Args:
        kind: of ``prompts.PROMPTS``.
        generator: who writes.
        databases: the directory of databases for rows of SQL; None for other kinds.
        workers: processes.
        second: whether functions are written twice and have to agree.
        survivors: the largest share of wrong programs or queries that may pass.
        timeout: seconds for one test or query.
    """
    with ExitStack() as stack:
        if databases is not None:
            rows = stack.enter_context(
                SQLVerifier(databases=databases, rule="strict", workers=workers, timeout=timeout)
            )
            yield QueryWriter(generator, QueryJudge(rows, survivors=survivors))
            return
        programs = stack.enter_context(CodeVerifier(workers=workers, timeout=timeout))
        judge = FunctionJudge(programs, survivors=survivors)
        yield FunctionWriter(kind, generator, judge, programs if second else None)


def _written(
    place: tuple[Seed, int],
    answer: str,
    verdict: Judged[_T],
    row: Callable[[_T], Mapping[str, Any]],
    text: Callable[[_T], str],
) -> Written:
    """What became of the answer at a place; ``row`` and ``text`` are of a draft that is kept."""
    draft = verdict.draft
    told = {"killed": verdict.killed, "mutants": verdict.mutants}
    return Written(
        seed_id=place[0].id,
        sample=place[1],
        answer=answer,
        reason=verdict.reason,
        note=verdict.note,
        text=answer if draft is None else text(draft),
        row={**row(draft), **told} if draft is not None and not verdict.reason else {},
    )


def _function_row(draft: Draft) -> Mapping[str, Any]:
    return {
        "prompt": draft.instruction,
        "response": draft.response(),
        "tests": list(draft.tests),
        "entry_point": draft.entry_point,
    }


def _query_row(schema: str, draft: Query) -> Mapping[str, Any]:
    return {
        "prompt": f"{schema}\n\n{draft.question}",
        "response": f"```sql\n{draft.query}\n```",
        "gold_sql": draft.query,
        "database": draft.database,
    }


def _query_text(draft: Query) -> str:
    return f"-- {draft.question}\n{draft.query};\n"


def _answers(
    generator: Generator, kind: str, asked: Sequence[tuple[Seed, int]], seed: int
) -> list[str]:
    prompts = [PROMPTS[kind](one) for one, _ in asked]
    return generator(prompts, [derived_seed(seed, kind, one.id, sample) for one, sample in asked])
