"""Settings that left the package: those that say "off" are dropped, all others are refused."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph.errors import DataError, SettingsError
from dph.recipe.keys import flat

LEFT = (
    "{} left this package with label-free learning from stored answers; commit d3c0d2a0 is the "
    "last one that reads it"
)
"""The refusal of a method, a table or a directory of label-free learning; takes its name."""
RIVAL_LEFT = (
    "{} left this package with methods that need a buffer, counts of the pool, a choice among the "
    "tokens of a mini-batch or a weight that adapts; commit 8d7e0dec is the last one that reads it"
)
"""The refusal of such a method, term or setting; takes its name."""
TRL_LEFT = (
    "{} is not an engine of recipes: train in your own script with dph.engines.trl.DPHTrainer "
    "(docs/tutorials/trl.md)"
)
"""The refusal of TRL as an engine; takes the setting."""
_METHODS = {
    **dict.fromkeys(("dph_broad", "consolidation", "consensus", "lmsi", "rft"), LEFT),
    **dict.fromkeys(("alpha_dpg", "bbg", "clip_cov", "dyjr", "kl_cov"), RIVAL_LEFT),
}
_OFF: Mapping[str, Mapping[str, Any]] = {
    "consolidation": {"updates": 0},
    "stores": {},
    "trl": {"processes": 1},
}
"""Tables that every recipe of a run had until commit d3c0d2a0, with the values that say "off"."""
_DROPPED: Mapping[str, Mapping[str, Any]] = {
    "self_consistency": {"reward": "majority"},
    "sampling": {"cuda_graphs": ...},
}
"""Settings of other tables, likewise; ``...`` stands for any value."""
_OF_ANCHORS = {"target_rate": 0.2, "weight_min": 0.01, "weight_max": 10.0}
"""Settings of every anchor until commit 8d7e0dec, with the values that say "off"."""
_TERMS = {
    ("advantage", "kind"): ("alpha_dpg", "bbg"),
    ("surrogate", "kind"): ("clip_cov",),
    ("penalties", "*", "kind"): ("kl_cov",),
}
"""Terms that left, by their places in ``[objective]``."""


def refuse_stores(run: Path) -> None:
    """Refuse the directory of a run that has stores or a consolidation."""
    for name in ("stores", "consolidation"):
        if (run / name).is_dir():
            raise DataError(LEFT.format(f"the directory {run / name}"))


def without_departed(table: Mapping[str, Any]) -> dict[str, Any]:
    """``table`` without settings that left the package."""
    if refused := list(_refused(table)):
        raise SettingsError("; ".join(refused))
    kept = {name: value for name, value in table.items() if name not in _OFF}
    for section, dropped in _DROPPED.items():
        if isinstance(inside := kept.get(section), Mapping):
            kept[section] = {
                key: value
                for key, value in inside.items()
                if key not in dropped or dropped[key] not in (..., value)
            }
    objective = kept.get("objective")
    anchors = objective.get("anchors") if isinstance(objective, Mapping) else None
    if isinstance(objective, Mapping) and isinstance(anchors, Mapping):
        here = {
            name: {key: value for key, value in anchor.items() if key not in _OF_ANCHORS}
            if isinstance(anchor, Mapping)
            else anchor
            for name, anchor in anchors.items()
        }
        kept["objective"] = {**objective, "anchors": here}
    return kept


def _refused(table: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(method := table.get("method"), str) and method in _METHODS:
        yield _METHODS[method].format(f"method = {method!r}")
    for name, off in _OFF.items():
        inside = table.get(name, off)
        if not isinstance(inside, Mapping) or any(inside.get(k, ...) != off[k] for k in off):
            yield (TRL_LEFT if name == "trl" else LEFT).format(f"[{name}]")
    for name in table["stores"] if isinstance(table.get("stores"), Mapping) else ():
        yield LEFT.format(f"[stores.{name}]")
    for key, value in flat(table):
        *section, name = key.split(".")
        anchor = section[:2] == ["objective", "anchors"]
        consistent = section == ["self_consistency"]
        if (
            (anchor and name == "divergence" and value == "distribution_kl")
            or (anchor and name == "samples" and str(value).startswith("store:"))
            or (consistent and name == "reward" and value != "majority")
            or (consistent and name == "samples")
        ):
            yield LEFT.format(f"{key} = {value!r}")
        if section[:1] == ["objective"] and _is_of_a_rival(section[1:], name, value):
            yield RIVAL_LEFT.format(f"{key} = {value!r}")
    if isinstance(train := table.get("train"), Mapping) and train.get("engine") == "trl":
        yield TRL_LEFT.format("train.engine = 'trl'")


def _is_of_a_rival(section: Sequence[str], name: str, value: Any) -> bool:
    """Whether a key of this section of ``[objective]`` names a removed term or setting."""
    kind, named = section[:1], section[1:]
    if kind == ["anchors"] and len(named) == 1:
        recent = name == "samples" and str(value).startswith("recent:")
        adapted = name in _OF_ANCHORS and value != _OF_ANCHORS[name]
        return recent or adapted or name in ("target", "recent_capacity")
    return value in _TERMS.get((*kind, *("*" for _ in named), name), ())
