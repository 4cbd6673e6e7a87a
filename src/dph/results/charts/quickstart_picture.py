"""The picture of a quickstart run: styles and Pass@k of every method and the base model."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from dph.errors import DataError
from dph.results.charts.palette import looks
from dph.results.charts.panels import (
    Models,
    pass_at_k_panel,
    picture,
    shares_panel,
    style_fills,
    training_panel,
)
from dph.results.charts.picture import Picture
from dph.results.vocabulary import BASE, method_label, models_of, set_title

_HEADLINE = 100
"""Letters in a line of the title above all panels."""


def quickstart_picture(
    summary: Mapping[str, Any],
    metrics: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    headline: str = "",
) -> Picture:
    """Four panels: styles, styles during training, and Pass@k in domain and cross domain.

    ``summary`` is ``{"base": {"sets"}, "methods": {name: {"sets"}}}`` with the sets in_domain and
    cross_domain; ``metrics`` holds the rows of each method's metrics.jsonl (step,
    effective_styles).
    """
    models = models_of(summary)
    inside, across = (_on_set(models, name) for name in ("in_domain", "cross_domain"))
    chosen = looks(models)
    trained = {name: metrics[name] for name in models if name in metrics}
    panels = [
        shares_panel(
            _styles_title(inside),
            "share of each style in domain; right: effective number",
            inside,
            style_fills([inside]),
        ),
        training_panel(
            "Styles during training",
            "effective styles of the sampled answers, each step",
            trained,
            chosen,
            inside[BASE]["effective_styles"],
        ),
        *(
            pass_at_k_panel(_pass_title(of, name), "bands: 95% intervals", of, chosen)
            for name, of in (("in_domain", inside), ("cross_domain", across))
        ),
    ]
    return Picture(picture(panels, most=2, headline=wrap(headline, _HEADLINE)))


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


def _pass_title(models: Models, set_name: str) -> str:
    k = max(models[BASE]["pass_at_k"], key=int)
    ends = {n: round(100 * m["pass_at_k"][k]) for n, m in models.items() if k in m["pass_at_k"]}
    base, trained = ends.pop(BASE), sorted(ends.values())
    span = " to ".join(f"{end}%" for end in dict.fromkeys([*trained[:1], *trained[-1:]]))
    said = ", ".join(filter(None, (span, f"base {base}%")))
    return f"{set_title(set_name)}: Pass@{k} {said}"
