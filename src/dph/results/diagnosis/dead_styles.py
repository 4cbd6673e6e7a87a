"""Which ways of answering died.

A style's share over a whole set, before and after. A style has died where two things hold: its
share fell to at most a tenth of what it was (``DIED``), and two draws of the same model would show
so large a fall with a chance of at most the level. Whether a problem's own few answers hold a style
says little; over a set a tenfold fall is a fact about the model.

The test is exact: given how many of all answers to a problem are of the style, the second draw's
part of them is known (``same_model``), and so is the distribution of the sum. Answers to one
problem resemble each other in style; the test keeps them together.
"""

from dataclasses import dataclass

from dph.errors import SettingsError
from dph.results.diagnosis.style_counts import StyleCounts
from dph.results.diagnosis.totals import fall_of_sum

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

    Raises:
        SettingsError: ``died`` is not at least 0 and below 1.
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
