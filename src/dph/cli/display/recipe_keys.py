"""The keys of a recipe: value, default and meaning."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from dph.settings import Recipe, SetSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One dotted key. ``value`` is absent where there is no recipe."""

    name: str
    meaning: str
    required: bool
    default: Any
    has_value: bool = False
    value: Any = None

    @property
    def differs(self) -> bool:
        """Whether the value is not the default."""
        return self.has_value and (self.required or self.value != self.default)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        content: dict[str, Any] = {"meaning": self.meaning, "required": self.required}
        if not self.required:
            content["default"] = self.default
        if self.has_value:
            content |= {"value": self.value, "differs": self.differs}
        return content

    def line(self) -> str:
        """For people."""
        default = "required" if self.required else f"default {_plain(self.default)}"
        if not self.has_value:
            return f"{self.name} ({default})\n      {self.meaning}"
        mark, aside = ("*", f"  ({default})") if self.differs else (" ", "")
        return f"{mark} {self.name} = {_plain(self.value)}{aside}\n      {self.meaning}"


def all_keys() -> list[Key]:
    """Every key there is; ``*`` stands for the name of an evaluation set."""
    return list(_keys(Recipe, "", None))


def keys_of(recipe: Recipe) -> list[Key]:
    """Every key of a resolved recipe."""
    return list(_keys(Recipe, "", recipe.model_dump(mode="json")))


def _keys(section: type[BaseModel], prefix: str, values: dict[str, Any] | None) -> Iterator[Key]:
    for name, field in section.model_fields.items():
        below = field.annotation
        inside = None if values is None else values[name]
        if prefix + name == "data.sets":
            for set_name in ["*"] if inside is None else inside:
                content = None if inside is None else inside[set_name]
                yield from _keys(SetSettings, f"data.sets.{set_name}.", content)
        elif isinstance(below, type) and issubclass(below, BaseModel):
            yield from _keys(below, f"{prefix}{name}.", inside)
        else:
            default = None if field.is_required() else field.default
            yield Key(
                name=f"{prefix}{name}",
                meaning=field.description or "",
                required=field.is_required(),
                default=list(default) if isinstance(default, tuple) else default,
                has_value=values is not None,
                value=inside,
            )


def _plain(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
