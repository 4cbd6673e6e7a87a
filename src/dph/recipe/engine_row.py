"""What another engine does with a setting of a recipe."""

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["engine", "package", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Where a setting goes, and which of its values the engine cannot have.

    ``engine``: it becomes the engine's own ``key``. ``package``: this package reads it, before,
    around or after the engine's training; ``key`` says where. ``other``: it belongs to an engine
    that does not run. Values are as in JSON. With ``only`` no other value is allowed, with
    ``never`` any but these; ``why`` ends the sentence that refuses one.
    """

    kind: Kind
    key: str
    only: tuple[Any, ...] | None = None
    never: tuple[Any, ...] = ()
    why: str = ""

    def refuses(self, value: Any) -> bool:
        """Whether the engine cannot have ``value``."""
        return value in self.never or (self.only is not None and value not in self.only)


def to(
    key: str,
    *,
    only: tuple[Any, ...] | None = None,
    never: tuple[Any, ...] = (),
    why: str = "",
) -> Row:
    """A setting that becomes the engine's ``key``."""
    return Row(kind="engine", key=key, only=only, never=never, why=why)


def ours(where: str, *, only: tuple[Any, ...] | None = None, why: str = "") -> Row:
    """A setting that this package reads in ``where``."""
    return Row(kind="package", key=where, only=only, why=why)


def others(engine: str) -> Row:
    """A setting of another engine."""
    return Row(kind="other", key=engine)


def under(key: str) -> Row:
    """A setting that matters only where ``key``, which has a row of its own, switches it on."""
    return Row(kind="package", key=f"with {key}")
