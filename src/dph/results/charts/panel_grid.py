"""A figure with panels in rows and one legend for all of them."""

from collections.abc import Callable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

Draw = Callable[[Axes], None]
WIDTH, HEIGHT = 5.2, 4.2


def panel_grid(rows: Sequence[Sequence[Draw]], *, height: float = HEIGHT) -> Figure:
    """A panel of ``height`` inches for each function; rows may have fewer than the widest.

    What the panels label stands in one legend below, each label once.
    """
    widest = max(map(len, rows))
    figure = Figure(
        figsize=(WIDTH * widest, height * len(rows)),
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.03, hspace=0.03),
    )
    panels = figure.subplots(len(rows), widest, squeeze=False)
    for row, draws in zip(panels, rows, strict=True):
        for axes in row[len(draws) :]:
            axes.set_visible(False)
        for axes, draw in zip(row, draws, strict=False):
            draw(axes)
    _add_legend(figure)
    return figure


def wrapped(draws: Sequence[Draw], *, most: int = 3) -> list[list[Draw]]:
    """Panels in rows of at most ``most``, as even as can be.

    >>> [len(row) for row in wrapped([lambda axes: None] * 4)]
    [2, 2]
    """
    count = -(-len(draws) // most)
    widest = -(-len(draws) // count)
    return [list(draws[i : i + widest]) for i in range(0, len(draws), widest)]


def _add_legend(figure: Figure) -> None:
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        if axes.get_legend() is None:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
    if not handles:
        return
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.22 * (1 + len(handles) // 4))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=min(4, len(handles)),
        fontsize=9,
    )
