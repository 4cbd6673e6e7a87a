"""Number of answers to each problem in each style, and the number of right ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from dph.errors import SettingsError
from dph.records import Outcome
from dph.results.diagnosis.totals import fall_of_sum
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


def pool_style_counts(samples: pa.Table) -> StyleCounts | None:
    """The counts of a pool's answers, problems with a gold answer only; None without styles.

    ``samples`` has the columns outcome, problem_id and style, each problem's rows together.
    """
    graded = samples.filter(pc.field("outcome") != Outcome.BAD_GOLD.value)
    styles = np.array(graded["style"].to_pylist(), dtype=object)
    if all(one is None for one in styles):
        return None
    problems = pc.count_distinct(graded["problem_id"]).as_py()
    correct = graded["outcome"].to_numpy() == Outcome.CORRECT.value
    styles, correct = styles.reshape(problems, -1), correct.reshape(problems, -1)
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


# Which ways of answering died.
#
# A style's share over a whole set, before and after. A style has died where two things hold: its
# share fell to at most a tenth of what it was (``DIED``), and two draws of the same model would
# show so large a fall with a chance of at most the level. Whether a problem's own few answers
# hold a style says little; over a set a tenfold fall is a fact about the model.
#
# The test is exact: given how many of all answers to a problem are of the style, the second
# draw's part of them is known (``same_model``), and so is the distribution of the sum. Answers to
# one problem resemble each other in style; the test keeps them together.

DIED = 0.1
"""A style has died when its share is at most this part of what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StyleChange:
    """A style before and after: its share of all answers and how often its answers are right.

    ``correct`` is None where there are no answers. ``p_value`` is the chance that two draws of one
    model show so large a fall of the share. Answers without a style (``style`` None) never die.
    """

    style: str | None
    share: float
    baseline_share: float
    correct: float | None
    baseline_correct: float | None
    p_value: float
    died: bool


def style_changes(
    model: StyleCounts, baseline: StyleCounts, *, level: float, died: float = DIED
) -> list[StyleChange]:
    """Every style's change; the chance that any is called dead by mistake is at most ``level``.

    Each style is tested at ``level`` over the number of styles (Bonferroni).
    """
    if not 0 <= died < 1:
        raise SettingsError(f"the share at which a style has died lies in [0, 1), got {died}")
    named = sum(style is not None for style in model.styles)
    changes = []
    for column, style in enumerate(model.styles):
        after, before = model.answers[:, column], baseline.answers[:, column]
        p_value = fall_of_sum(before, after, model.samples)
        fell = after.sum() <= died * before.sum() and p_value <= level / max(1, named)
        changes.append(
            StyleChange(
                style=style,
                share=float(after.sum() / model.answers.sum()),
                baseline_share=float(before.sum() / baseline.answers.sum()),
                correct=_share(int(model.correct[:, column].sum()), int(after.sum())),
                baseline_correct=_share(int(baseline.correct[:, column].sum()), int(before.sum())),
                p_value=p_value,
                died=bool(fell and style is not None),
            )
        )
    return changes


def smallest_rate(model: StyleCounts, baseline: StyleCounts) -> float:
    """The smallest level at which any style's share fell more than two draws of one model show."""
    named = [column for column, style in enumerate(model.styles) if style is not None]
    p_values = [
        fall_of_sum(baseline.answers[:, column], model.answers[:, column], model.samples)
        for column in named
    ]
    return min(1.0, len(named) * min(p_values, default=1.0))


def _share(count: int, of: int) -> float | None:
    return count / of if of else None
