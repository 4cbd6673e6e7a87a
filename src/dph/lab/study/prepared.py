"""The note that a world of a seed is ready for runs: base model, its evaluation, and pools."""

from collections.abc import Sequence
from pathlib import Path

from dph._base.files import make_directory, read_json, write_json

NOTE = "prepared.json"


def note_prepared(directory: Path, base: str, pools: Sequence[str]) -> None:
    """Say that the base model (by the id of its run) is evaluated and that these pools are made."""
    before = _pools(directory, base) or []
    write_json(make_directory(directory) / NOTE, {"base": base, "pools": sorted({*before, *pools})})


def is_prepared(directory: Path, base: str, pools: Sequence[str]) -> bool:
    """Whether runs that read these pools can begin."""
    there = _pools(directory, base)
    return there is not None and set(pools) <= set(there)


def _pools(directory: Path, base: str) -> list[str] | None:
    """The pools that are made; None where the base model is not, or is another one."""
    path = directory / NOTE
    found = read_json(path) if path.exists() else {}
    return list(found["pools"]) if found.get("base") == base else None
