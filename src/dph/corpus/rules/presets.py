"""Tables of rules that belong together, by name."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dph.corpus.rules.rule import KINDS, Condition, Rule, parse_condition
from dph.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Preset:
    """A named table of rules.

    Args:
        name: of the preset.
        rules: by name.
        left_out: why rules of the table it was made from are not in it, by name.
        replaced: which rule of that table one of its own stands in for, by the own one's name.
        released_names: files without a language of their own get it as the released filter's
            example gives it: by the name without its extension, then by the extension alone.
    """

    name: str
    rules: Mapping[str, Rule]
    left_out: Mapping[str, str]
    replaced: Mapping[str, str]
    released_names: bool

    def of_kind(self, kind: str) -> Mapping[str, tuple[Rule, Condition]]:
        """The rules for a kind of files, each with its condition."""
        return {
            name: (rule, rule.conditions[kind])
            for name, rule in self.rules.items()
            if kind in rule.conditions
        }


PRESETS: Mapping[str, str | None] = {"opencoder": None, "fixed": "opencoder", "sql": "fixed"}
"""The presets, and which one each is made from."""


@cache
def load_preset(name: str) -> Preset:
    """A preset by name.

    Raises:
        SettingsError: there is none of that name.
    """
    if name not in PRESETS:
        raise SettingsError(f"a preset of rules is one of {', '.join(PRESETS)}; got {name!r}")
    base = PRESETS[name]
    text = files("dph.corpus.rules").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    rules = {} if base is None else dict(load_preset(base).rules)
    left_out = dict(table.get("left_out", {}))
    for gone in left_out:
        del rules[gone]
    replaced = {}
    for row in table["rule"]:
        if old := row.pop("replaces", None):
            replaced[row["name"]] = old
            del rules[old]
        rules[row["name"]] = _rule(row)
    return Preset(name, rules, left_out, replaced, released_names=base is None)


def _rule(row: Mapping[str, Any]) -> Rule:
    drop = row["drop"]
    conditions = {}
    for family, members in KINDS.items():
        for kind in members:
            if text := drop.get(kind, drop.get(family, "")):
                conditions[kind] = parse_condition(text)
    known = {*KINDS, *(kind for members in KINDS.values() for kind in members)}
    if unknown := set(drop) - known:
        raise ValueError(f"{row['name']} has conditions for unknown kinds: {sorted(unknown)}")
    facts = {key: value for key, value in row.items() if key != "drop"}
    return Rule(conditions=conditions, **facts)
