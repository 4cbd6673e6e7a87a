"""Settings that left the package: those that say "off" are dropped, all others are refused."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dph.errors import DataError, SettingsError
from dph.recipe.keys import flat

LEFT = (
    "{} left this package with label-free learning from stored answers; commit d3c0d2a0 is the "
    "last one that reads it"
)
"""The refusal of a method, a table or a directory of label-free learning; takes its name."""
TRL_LEFT = (
    "{} is not an engine of recipes: train in your own script with dph.engines.trl.DPHTrainer "
    "(docs/tutorials/trl.md)"
)
"""The refusal of TRL as an engine; takes the setting."""
_METHODS = ("dph_broad", "consolidation", "consensus", "lmsi", "rft")
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


def refuse_stores(run: Path) -> None:
    """Refuse the directory of a run that has stores or a consolidation.

    Raises:
        DataError: it has.
    """
    for name in ("stores", "consolidation"):
        if (run / name).is_dir():
            raise DataError(LEFT.format(f"the directory {run / name}"))


def without_departed(table: Mapping[str, Any]) -> dict[str, Any]:
    """``table`` without settings that left the package.

    Raises:
        SettingsError: one of them asks for something.
    """
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
    return kept


def _refused(table: Mapping[str, Any]) -> Iterator[str]:
    if table.get("method") in _METHODS:
        yield LEFT.format(f"method = {table['method']!r}")
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
    if isinstance(train := table.get("train"), Mapping) and train.get("engine") == "trl":
        yield TRL_LEFT.format("train.engine = 'trl'")
