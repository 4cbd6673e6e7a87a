"""Short names for what most methods have: one KL penalty, one divergence on stored answers.

    eta = 0.3   stands for   [objective.anchors.rehearsal] weight = 0.3

They are the names of the papers, and those of recipes written before the objective was a sum of
terms. All engines take them, because all read the same section.
"""

from collections.abc import Mapping
from typing import Any

REHEARSAL, KL = "rehearsal", "kl"
"""The names of the anchor and of the penalty that the short names speak of."""

SHORTHAND: dict[str, tuple[str, ...]] = {
    "advantage_scale": ("advantage", "scale"),
    "clip_low": ("surrogate", "clip_low"),
    "clip_high": ("surrogate", "clip_high"),
    "kl_coefficient": ("penalties", KL, "weight"),
    "kl_estimator": ("penalties", KL, "estimator"),
    "eta": ("anchors", REHEARSAL, "weight"),
    "divergence": ("anchors", REHEARSAL, "divergence"),
    "js_definition": ("anchors", REHEARSAL, "divergence"),
    "alpha": ("anchors", REHEARSAL, "alpha"),
    "forward_kl_form": ("anchors", REHEARSAL, "form"),
}
"""What each short name stands for."""

_PARAMETER_OF = {"alpha": "alpha", "forward_kl_form": "forward_kl"}
"""Short names that only one divergence has; a table that says all leaves the others' lying."""


def expand_shorthand(objective: Mapping[str, Any]) -> dict[str, Any]:
    """``[objective]`` with every short name in the place that it stands for.

    Raises:
        ValueError: a value stands under both names, or js_definition beside another divergence.
    """
    short = {name: objective[name] for name in SHORTHAND if name in objective}
    expanded = {name: value for name, value in objective.items() if name not in SHORTHAND}
    if not short:
        return expanded
    for name in _idle(short):
        del short[name]
    for name, value in short.items():
        _put(expanded, SHORTHAND[name], value, name)
    return expanded


def _idle(short: dict[str, Any]) -> list[str]:
    """Short names that say nothing here; the definition form becomes a divergence of its own."""
    idle = [] if short.get("js_definition") else [n for n in ("js_definition",) if n in short]
    if short.get("js_definition"):
        if short.get("divergence", "jensen_shannon") != "jensen_shannon":
            raise ValueError(
                f"js_definition needs divergence='jensen_shannon', got {short['divergence']!r}"
            )
        short.pop("divergence", None)
        short["js_definition"] = "jensen_shannon_definition"
    chosen = short.get("divergence", short.get("js_definition"))
    if chosen == "none":
        if short.get("eta"):
            raise ValueError(f"eta={short['eta']} needs a divergence, got divergence='none'")
        short |= {"divergence": "forward_kl", "eta": 0.0}  # there, and off
    if chosen is not None and chosen is not False:
        idle += [n for n, of in _PARAMETER_OF.items() if n in short and of != chosen]
    return idle


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any, name: str) -> None:
    *parents, last = path
    for parent in parents:
        inside = table.get(parent, {})
        if not isinstance(inside, Mapping):
            raise ValueError(f"{parent} is a table of settings, got {inside!r}")
        table[parent] = dict(inside)
        table = table[parent]
    if last in table and table[last] != value:
        raise ValueError(
            f"{name}={value!r} is short for {'.'.join(path)}, which is {table[last]!r}"
        )
    table[last] = value
