"""The picture of a quickstart run: styles and Pass@k of every method and the base model."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from types import MappingProxyType
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dph._base.files import atomic_path
from dph.errors import DataError
from dph.results.charts.palette import Look, looks, require_picture
from dph.results.charts.panels import Models, draw_pass_at_k, draw_shares, draw_training, title
from dph.results.vocabulary import BASE, method_label, models_of, set_title

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
    """Save what ``draw`` returns, in the look of all pictures; the same figure, the same bytes."""
    kind = require_picture(path)
    with style.context(["default", STYLE]):
        figure = draw()
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=DPI, metadata=dict(_METADATA[kind]))


_LONGEST = 24
"""Letters of names of methods that are tied; more would not fit next to another panel."""
_HEADLINE = 92
"""Letters in a line of the title above all panels."""
_MANY_STYLES = 0.7
"""A method with so large a part of the base model's effective styles has kept them."""

MetricsOfRuns = Mapping[str, Sequence[Mapping[str, Any]]]


def quickstart_figure(
    summary: Mapping[str, Any], metrics: MetricsOfRuns, path: Path, *, headline: str = ""
) -> None:
    """Save the four-panel picture as png (160 dpi), svg or pdf, by the suffix of ``path``.

    ``summary`` is ``{"base": {"sets"}, "methods": {name: {"sets"}}}`` with the sets in_domain and
    cross_domain; ``metrics`` holds the rows of each method's metrics.jsonl (step,
    effective_styles). The same input gives the same bytes.
    """
    save_figure(path, lambda: draw_quickstart(summary, metrics, headline=headline))


def draw_quickstart(
    summary: Mapping[str, Any], metrics: MetricsOfRuns, *, headline: str = ""
) -> Figure:
    """The figure with its four axes, in the current matplotlib settings."""
    models = models_of(summary)
    inside, across = (_on_set(models, name) for name in ("in_domain", "cross_domain"))
    chosen = looks(models)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.03, hspace=0.03)
    figure = Figure(figsize=(10.4, 8.2 + 0.16 * max(0, len(models) - 5)), layout=layout)
    (top_left, top_right), (low_left, low_right) = figure.subplots(2, 2)
    draw_shares(top_left, inside)
    title(top_left, _styles_title(inside), "share of each style in domain; right: effective number")
    trained = {name: metrics[name] for name in models if name in metrics}
    draw_training(top_right, trained, chosen, inside[BASE]["effective_styles"])
    title(top_right, _training_title(inside), "effective styles of the sampled answers, each step")
    for axes, of_set, name in (
        (low_left, inside, "in_domain"),
        (low_right, across, "cross_domain"),
    ):
        draw_pass_at_k(axes, of_set, chosen)
        title(axes, *_pass_title(of_set, name))
    low, high = (
        f([a.get_ylim()[i] for a in (low_left, low_right)]) for i, f in ((0, min), (1, max))
    )
    for axes in (low_left, low_right):
        axes.set_ylim(low, high)
    if headline:
        figure.suptitle(fill(headline, _HEADLINE), x=0.02, ha="left", fontsize=12, weight="bold")
    _shared_legend(figure, low_left.get_legend_handles_labels(), chosen)
    return figure


def _shared_legend(
    figure: Figure, handles_and_labels: tuple[list[Any], list[Any]], chosen: Mapping[str, Look]
) -> None:
    figure.legend(
        *handles_and_labels,
        loc="outside lower center",
        ncols=min(len(chosen), 5),
        fontsize=10,
        handlelength=2.6,
        columnspacing=2.0,
    )


def _on_set(models: Models, set_name: str) -> dict[str, Mapping[str, Any]]:
    for name, sets in models.items():
        if set_name not in sets:
            raise DataError(f"{name!r} was not evaluated on set {set_name!r}")
    return {name: sets[set_name] for name, sets in models.items()}


def _styles_title(models: Models) -> str:
    known = {n: m["effective_styles"] for n, m in models.items() if m["effective_styles"]}
    trained = {name: number for name, number in known.items() if name != BASE}
    if BASE not in known or not trained:
        return "Styles of answering"
    fewest = min(trained, key=trained.__getitem__)
    return f"{method_label(fewest)} is left with {trained[fewest]:.1f} of {known[BASE]:.1f} styles"


def _training_title(models: Models) -> str:
    base = models[BASE]["effective_styles"]
    numbers = {n: m["effective_styles"] for n, m in models.items() if n != BASE}
    if base is None or not numbers or None in numbers.values():
        return "Styles during training"
    kept = [name for name, number in numbers.items() if number >= _MANY_STYLES * base]
    if not kept:
        return "No method keeps the base model's styles"
    if len(kept) > 2:
        return f"{len(kept)} of {len(numbers)} methods keep most styles"
    names = " and ".join(method_label(name) for name in kept)
    return f"{names} {'keep' if len(kept) > 1 else 'keeps'} most styles"


def _pass_title(models: Models, set_name: str) -> tuple[str, str]:
    k = max(models[BASE]["pass_at_k"], key=int)
    ends = {n: round(100 * m["pass_at_k"][k]) for n, m in models.items() if k in m["pass_at_k"]}
    base = ends.pop(BASE)
    start, bands = f"{set_title(set_name)}: Pass@{k}", "bands: 95% intervals"
    if not ends:
        return f"{start} {base}%", bands
    low, high = min(ends.values()), max(ends.values())
    if low == high:
        return f"{start} {low}%, base {base}%", bands
    lowest, highest = (
        _in_words([method_label(name) for name, end in ends.items() if end == value])
        for value in (low, high)
    )
    return (
        f"{start} {low}% to {high}%, base {base}%",
        f"lowest {lowest}, highest {highest}; {bands}",
    )


def _in_words(names: Sequence[str]) -> str:
    """All that are tied, or how many they are."""
    words = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return words if len(names) == 1 or len(words) <= _LONGEST else f"{len(names)} methods"
