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
    training_panel,
)
from dph.results.charts.picture import Picture
from dph.results.vocabulary import BASE, method_label, models_of, set_title

_LONGEST = 24
"""Letters of names of methods that are tied; more would not fit next to another panel."""
_HEADLINE = 100
"""Letters in a line of the title above all panels."""
_MANY_STYLES = 0.7
"""A method with so large a part of the base model's effective styles has kept them."""


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
            _styles_title(inside), "share of each style in domain; right: effective number", inside
        ),
        training_panel(
            _training_title(inside),
            "effective styles of the sampled answers, each step",
            trained,
            chosen,
            inside[BASE]["effective_styles"],
        ),
        pass_at_k_panel(*_pass_title(inside, "in_domain"), inside, chosen),
        pass_at_k_panel(*_pass_title(across, "cross_domain"), across, chosen),
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
