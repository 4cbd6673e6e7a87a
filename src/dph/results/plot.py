"""Figures of runs for a notebook: each returns a matplotlib figure, which a notebook shows.

>>> sorted(__all__)
['pass_at_k', 'progress', 'retention', 'strengths', 'styles']
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from dph.results.charts.figures import STYLE
from dph.results.figure.figures import KINDS, FigureRequest

__all__ = ["pass_at_k", "progress", "retention", "strengths", "styles"]

Place = str | Path


def pass_at_k(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Figure:
    """Pass@k over k, a panel a set, with 95% intervals (Figure 3 of arXiv:2509.07430).

    Args:
        runs: run directories, or directories of runs; what they began with is drawn next to them.
        sets: only these sets; default: all.
        k: the largest k; default: the number of samples.
        seed: of the bootstrap.
        apart: keep runs apart that differ in their seed alone.

    Raises:
        DataError: there is no run, it was not evaluated, or a file is damaged.
        SettingsError: k is out of range.
    """
    return _drawn("pass-at-k", runs, sets, k, seed, apart)


def styles(*runs: Place, sets: Sequence[str] = (), seed: int = 0, apart: bool = False) -> Figure:
    """The shares of the styles of answering, a panel a set (Figure 2); see ``pass_at_k``."""
    return _drawn("styles", runs, sets, None, seed, apart)


def retention(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Figure:
    """Problems kept and gained, of ``k`` samples a draw (Figure 4); see ``pass_at_k``."""
    return _drawn("retention", runs, sets, k, seed, apart)


def strengths(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Figure:
    """Greedy and Pass@k over a method's strength, the ablation of eta; see ``pass_at_k``."""
    return _drawn("eta", runs, sets, k, seed, apart)


def progress(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Figure:
    """Pass@k while training (Figure 5); see ``pass_at_k``."""
    return _drawn("progress", runs, sets, k, seed, apart)


def _drawn(
    kind: str, runs: Sequence[Place], sets: Sequence[str], k: int | None, seed: int, apart: bool
) -> Figure:
    asked = FigureRequest(
        places=[Path(run) for run in runs], sets=sets, k=k, seed=seed, apart=apart
    )
    with style.context(["default", STYLE]):
        return KINDS[kind](asked).draw()
