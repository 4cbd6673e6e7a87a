"""Finding out what stored answers are worth: by comparing them, and by grading them."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from dph._base.files.parts import TableParts
from dph.errors import DataError
from dph.records import UNGRADED, Outcome, Problem
from dph.runs.presample.stores.groups import StoredGroup, groups_of
from dph.runs.presample.stores.manifest import ValueSource
from dph.runs.presample.stores.values import VALUES, Valued, valued, values_table
from dph.tasks.agreement.base import Comparer
from dph.tasks.verifiers.base import Verifier, verifier_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Who says what answers are worth.

    Attributes:
        comparer: None where answers are not compared.
        verifier: grades the answers to the problems of which ``labelled`` says that they have a
            gold answer.
        all_labelled: whether every prompt has to be labelled.
    """

    comparer: Comparer | None
    verifier: Verifier
    labelled: Callable[[Problem], bool]
    all_labelled: bool

    def source(self) -> ValueSource:
        """What the values will depend on."""
        found: dict[str, Any] = {}
        if self.comparer is not None:
            known = self.comparer.identity
            found |= {"compared_by": known["name"], "compared_version": known["version"]}
            found |= {"compared_settings": known["settings"]}
        known = verifier_identity(self.verifier)
        found |= {"graded_by": known["name"], "graded_version": known["version"]}
        return ValueSource(**found, graded_settings=known["settings"])


class Valuing:
    """Judges answers chunk by chunk, in a thread beside whoever draws the next chunk.

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
    verdicts = judges.verifier.grade(
        [groups[index].problem for index, _, _ in asked], [text for _, _, text in asked]
    )
    correct: list[list[bool | None] | None] = [
        [False] * len(group.texts) if has_gold else None
        for group, has_gold in zip(groups, known, strict=True)
    ]
    for (index, place, _), verdict in zip(asked, verdicts, strict=True):
        row = correct[index]
        if row is not None:  # what could not be graded is neither right nor wrong
            right = verdict.outcome is Outcome.CORRECT
            row[place] = None if verdict.outcome in UNGRADED else right
    return correct
