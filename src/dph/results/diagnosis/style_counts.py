"""How many answers to each problem are of each style, and how many of those are right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from dph.records import Outcome
from dph.runs.evaluate.scores import SetScores

Counts = Int[np.ndarray, "problems styles"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StyleCounts:
    """Answers and right answers, a row for each problem and a column for each style.

    Answers that have no style are a column of their own, named None: they are answers too.
    """

    styles: tuple[str | None, ...]
    answers: Counts
    correct: Counts

    @property
    def samples(self) -> int:
        """Answers to each problem."""
        return round(float(self.answers[0].sum()))


def paired_style_counts(
    model: pa.Table, baseline: pa.Table, set_name: str, scores: SetScores, *, samples: int
) -> tuple[StyleCounts, StyleCounts]:
    """The run's and the baseline's counts on a set, with the same columns, styles by name.

    ``scores`` say which problems count and in which order; of each the first ``samples`` answers
    are taken. The tables are as ``comparable_scores`` has accepted them.
    """
    both = [_rows(table, set_name, scores, samples) for table in (model, baseline)]
    ordered = _ordered(*(styles for styles, _ in both))
    mine, theirs = (_counts(styles, correct, ordered) for styles, correct in both)
    return mine, theirs


def set_style_counts(table: pa.Table, set_name: str, scores: SetScores) -> StyleCounts:
    """The counts of one model on a set, over all of its answers; styles by name, None last."""
    styles, correct = _rows(table, set_name, scores, scores.samples)
    return _counts(styles, correct, _ordered(styles))


def _ordered(*styles: np.ndarray) -> tuple[str | None, ...]:
    names = {name for one in styles for name in one.ravel().tolist()}
    return (*sorted(n for n in names if n is not None), *([None] if None in names else []))


def _rows(
    table: pa.Table, set_name: str, scores: SetScores, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    chosen = table.filter(
        (pc.field("set") == set_name)
        & (pc.field("sample_index") >= 0)
        & (pc.field("sample_index") < samples)
        & pc.field("problem_id").isin(pa.array(scores.problem_ids, pa.string()))
    )
    shape = (len(scores.problem_ids), samples)
    correct = chosen["outcome"].to_numpy() == Outcome.CORRECT.value
    styles = np.array(chosen["style"].to_pylist(), dtype=object)
    return styles.reshape(shape), correct.reshape(shape)


def _counts(styles: np.ndarray, correct: np.ndarray, names: Sequence[str | None]) -> StyleCounts:
    of_style = [np.asarray(styles == name, dtype=bool) for name in names]
    return StyleCounts(
        styles=tuple(names),
        answers=np.stack([one.sum(axis=1) for one in of_style], axis=1).astype(np.int64),
        correct=np.stack([(one & correct).sum(axis=1) for one in of_style], axis=1).astype(
            np.int64
        ),
    )
