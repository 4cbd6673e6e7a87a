"""Value of each stored answer: with whom it agrees, and whether it is correct."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Self

import pyarrow as pa

from dph._base.files.parts import TableParts
from dph.errors import DataError
from dph.records import UNGRADED, Outcome, Problem
from dph.runs.presample.manifest import ValueSource
from dph.runs.presample.stores.groups import StoredGroup, groups_of
from dph.tasks.agreement import Comparer, consensus_class
from dph.tasks.environments import EnvironmentVerifier
from dph.tasks.verifiers.base import Verifier, verifier_identity

VALUES = pa.schema(
    [
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("answer_class", pa.int32()),
        ("agreement", pa.float64()),
        ("correct", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued:
    """An answer's place among those to its prompt.

    Attributes:
        answer_class: answers of one class agree; None for an answer without a result, and where
            answers were not compared.
        agreement: share of the other answers that are of its class; None where not compared.
        correct: None where there is no gold answer, or it was not asked for.
    """

    answer_class: int | None
    agreement: float | None
    correct: bool | None


def valued(
    classes: Sequence[int | None] | None, correct: Sequence[bool | None] | None, *, answers: int
) -> list[Valued]:
    """The values of the answers to one prompt.

    Equation: agreement of answer i = (size of its class - 1) / (answers - 1); 0 without a class.

    >>> [v.agreement for v in valued([0, None, 0], None, answers=3)]
    [0.5, 0.0, 0.5]
    """
    sizes = Counter(classes or ())
    return [
        Valued(
            answer_class=classes[i] if classes else None,
            agreement=_agreement(classes[i], sizes, answers) if classes else None,
            correct=correct[i] if correct else None,
        )
        for i in range(answers)
    ]


def _agreement(own: int | None, sizes: Mapping[int | None, int], answers: int) -> float:
    return 0.0 if own is None else (sizes[own] - 1) / max(1, answers - 1)


def distinct_agreement(classes: Sequence[int | None], texts: Sequence[str]) -> list[float]:
    """For every answer the share of the other texts that agree with it.

    An answer that was drawn twice is one witness: that a model often writes the same thing does
    not make it right, that it comes to the same result in another way may.

    Equation: (texts of its class - 1) / (texts - 1), each text counted once; 0 without a class.

    >>> distinct_agreement([0, 0, 1, 1, None], ["a", "a", "b", "c", ""])
    [0.0, 0.0, 0.3333333333333333, 0.3333333333333333, 0.0]
    """
    sizes = Counter(own for own, _ in set(zip(classes, texts, strict=True)))
    others = max(1, len(set(texts)) - 1)
    return [0.0 if own is None else (sizes[own] - 1) / others for own in classes]


def values_table(groups: Mapping[str, Sequence[Valued]]) -> pa.Table:
    """One row for each answer."""
    rows = [
        {"problem_id": problem_id, "sample_index": index, **asdict(value)}
        for problem_id, group in groups.items()
        for index, value in enumerate(group)
    ]
    return pa.Table.from_pylist(rows, schema=VALUES)


def values_by_prompt(table: pa.Table) -> dict[str, list[Valued]]:
    """The values of a table by the id of the prompt, in the order of the answers."""
    found: dict[str, list[Valued]] = {}
    for row in table.to_pylist():
        value = Valued(**{name: row[name] for name in ("answer_class", "agreement", "correct")})
        found.setdefault(row["problem_id"], []).append(value)
    return found


def agreement_counts(groups: Mapping[str, Sequence[Valued]]) -> dict[str, Any]:
    """Counts for a manifest: how far answers agree, and how often on a wrong result.

    The answer that a prompt's agreement stands for is the first of its largest class; the first
    class wins a tie.
    """
    compared = {i: g for i, g in groups.items() if any(v.agreement is not None for v in g)}
    labelled = {i: g for i, g in groups.items() if any(v.correct is not None for v in g)}
    leaders = {i: leader for i, g in compared.items() if (leader := _leader(g)) is not None}
    judged = (leaders[i].correct for i in labelled if i in leaders)
    checked = [correct for correct in judged if correct is not None]
    return {
        "prompts_that_agree": len(leaders) / len(compared) if compared else None,
        "agreement": _mean(v.agreement for g in compared.values() for v in g),
        "labelled": len(labelled),
        "correct": _mean(v.correct for g in labelled.values() for v in g),
        "agreed_wrong": 1 - sum(checked) / len(checked) if checked else None,
    }


def _leader(group: Sequence[Valued]) -> Valued | None:
    """The first answer of the largest class, if that holds two or more."""
    classes = tuple(v.answer_class for v in group)
    number = consensus_class(classes, range(len(group)))
    return None if number is None else group[classes.index(number)]


def _mean(numbers: Iterator[float | bool | None]) -> float | None:
    known = [float(number) for number in numbers if number is not None]
    return fmean(known) if known else None


# Finding out what stored answers are worth: by comparing them, and by grading them.


def grader_of(verifier: Verifier) -> Verifier:
    """The verifier of answers: of an environment, the one that grades what trajectories came to.

    It is the environment itself where its class has ``get_reward``.
    """
    own = verifier.verifier if isinstance(verifier, EnvironmentVerifier) else None
    return own or verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Judges of answers.

    Attributes:
        comparer: None where answers are not compared.
        verifier: grades the answers to the problems of which ``labelled`` says that they have a
            gold answer. That of an environment grades what trajectories came to; where its class
            has ``get_reward``, it did so while they acted.
        all_labelled: whether every prompt has to be labelled.
    """

    comparer: Comparer | None
    verifier: Verifier
    labelled: Callable[[Problem], bool]
    all_labelled: bool

    def source(self) -> ValueSource:
        """Inputs that the values will depend on."""
        compared = self.comparer.identity if self.comparer is not None else None
        return ValueSource.of(graded=verifier_identity(self.verifier), compared=compared)


class Valuing:
    """Judges answers chunk by chunk, in a separate thread while the next chunk is drawn.

    Chunks that were finished before are read again. Use it as a context manager: what is not begun
    is dropped where the block fails.
    """

    def __init__(self, judges: Judges, parts: TableParts) -> None:
        self._judges, self._parts = judges, parts
        self._thread = ThreadPoolExecutor(1)
        self._chunks: list[Future[pa.Table]] = []

    def take(self, index: int, groups: pa.Table) -> None:
        """Have chunk ``index`` judged.

        Raises:
            DataError: a prompt of an earlier chunk lacks what is needed to compare or to grade.
            VerifierError: who compares or grades is broken.
        """
        for chunk in self._chunks:
            if chunk.done():
                chunk.result()
        self._chunks.append(self._thread.submit(self._chunk, index, groups))

    def values(self, *, on_progress: Callable[[int], None] = lambda _: None) -> pa.Table:
        """The values of all answers, once they are judged.

        ``on_progress`` is called with the number of answers judged since the last call.

        Raises:
            DataError, VerifierError: as of ``take``.
        """
        tables = []
        for chunk in self._chunks:
            found = chunk.result()
            on_progress(found.num_rows)
            tables.append(found.cast(VALUES))
        return pa.concat_tables(tables).combine_chunks()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _chunk(self, index: int, groups: pa.Table) -> pa.Table:
        found = self._parts.read(index)
        if found is None:
            found = values_table(_judged(list(groups_of(groups)), self._judges))
            self._parts.write(index, found)
        return found


def _judged(groups: Sequence[StoredGroup], judges: Judges) -> dict[str, list[Valued]]:
    problems = [group.problem for group in groups]
    classes: Sequence[Sequence[int | None] | None] = [None] * len(groups)
    if judges.comparer is not None:
        classes = judges.comparer.classes(problems, [group.answered for group in groups])
    return {
        group.problem.problem_id: valued(own, correct, answers=len(group.texts))
        for group, own, correct in zip(groups, classes, _graded(groups, judges), strict=True)
    }


def _graded(groups: Sequence[StoredGroup], judges: Judges) -> list[list[bool | None] | None]:
    """Of the answers to each prompt whether they are correct; None where that is not known."""
    grader = grader_of(judges.verifier)
    if isinstance(grader, EnvironmentVerifier):
        return [list(group.acting.rewarded) if group.acting else None for group in groups]
    known = [judges.labelled(group.problem) for group in groups]
    if judges.all_labelled and not all(known):
        lacking = groups[known.index(False)].problem.problem_id
        raise DataError(
            f"values = 'correct' needs a gold answer for every prompt, {lacking!r} has none: "
            "leave such prompts out, or set values = 'agreement'"
        )
    asked = [
        (index, place, text)
        for index, group in enumerate(groups)
        if known[index]
        for place, text in enumerate(group.answered)
        if text is not None
    ]
    verdicts = grader.grade(
        [groups[index].problem for index, _, _ in asked], [text for _, _, text in asked]
    )
    correct: list[list[bool | None] | None] = [
        [None] * len(group.texts) if has_gold else None
        for group, has_gold in zip(groups, known, strict=True)
    ]
    for (index, place, _), verdict in zip(asked, verdicts, strict=True):
        row = correct[index]
        if row is not None and verdict.outcome not in UNGRADED:
            row[place] = verdict.outcome is Outcome.CORRECT
    for group, row in zip(groups, correct, strict=True):
        finished = [text is not None for text in group.answered]
        # Of a prompt whose gold cannot be used, an answer that was cut off is not wrong either.
        if row is not None and not (any(finished) and all(right is None for right in row)):
            row[:] = [right if done else False for right, done in zip(row, finished, strict=True)]
    return correct
