"""A picture as a file: one look for all of them, and the same bytes for the same figure."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from matplotlib import style
from matplotlib.figure import Figure

from dph._base.files import atomic_path
from dph.results.charts.picture_file import require_picture

DPI = 160
STYLE = Path(__file__).with_name("figures.mplstyle")
"""The look of every picture, a style file of matplotlib."""
_METADATA: Mapping[str, Mapping[str, None]] = MappingProxyType(
    {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
)
"""By suffix, what a file says of when and with what it was made: nothing."""


def save_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Save what ``draw`` returns, in the look of all pictures; the same figure, the same bytes.

    Raises:
        SettingsError: the suffix names no kind of picture.
    """
    kind = require_picture(path)
    with style.context(["default", STYLE]):
        figure = draw()
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=DPI, metadata=dict(_METADATA[kind]))
