"""Figures of runs for a notebook, which shows what each returns; ``.save(path)`` keeps a picture.

>>> sorted(__all__)
['pass_at_k', 'progress', 'retention', 'strengths', 'styles']
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dph.results.charts.picture import Picture
from dph.results.paper import paper_figure
from dph.results.paper_models import FigureRequest

__all__ = ["pass_at_k", "progress", "retention", "strengths", "styles"]

Place = str | Path


def pass_at_k(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Picture:
    """Pass@k over k, a panel a set, with 95% intervals (Figure 3 of arXiv:2509.07430).

    Args:
        runs: run directories, or directories of runs; what they began with is drawn next to them.
        sets: only these sets; default: all.
        k: the largest k; default: the number of samples.
        seed: of the bootstrap.
        apart: keep runs apart that differ only in their seed.

    Raises:
        DataError: there is no run, it was not evaluated, or a file is damaged.
        SettingsError: k is out of range.
    """
    return _drawn("pass-at-k", runs, sets=sets, k=k, seed=seed, apart=apart)


def styles(*runs: Place, sets: Sequence[str] = (), seed: int = 0, apart: bool = False) -> Picture:
    """The shares of the styles of answering, a panel a set (Figure 2); see ``pass_at_k``."""
    return _drawn("styles", runs, sets=sets, seed=seed, apart=apart)


def retention(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Picture:
    """Problems kept and gained, of ``k`` samples a draw (Figure 4); see ``pass_at_k``."""
    return _drawn("retention", runs, sets=sets, k=k, seed=seed, apart=apart)


def strengths(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Picture:
    """Greedy and Pass@k over a method's strength, the ablation of eta; see ``pass_at_k``."""
    return _drawn("eta", runs, sets=sets, k=k, seed=seed, apart=apart)


def progress(
    *runs: Place, sets: Sequence[str] = (), k: int | None = None, seed: int = 0, apart: bool = False
) -> Picture:
    """Pass@k while training (Figure 5); see ``pass_at_k``."""
    return _drawn("progress", runs, sets=sets, k=k, seed=seed, apart=apart)


def _drawn(kind: str, runs: Sequence[Place], **chosen: Any) -> Picture:
    return paper_figure(kind, FigureRequest(places=list(map(Path, runs)), **chosen)).picture
