"""Rules from a file: a preset with user-defined thresholds, and rules on user-defined signals.

    base = "fixed"

    [thresholds]
    code_comments_as_lexed = "> 0.9"
    "code_comments_as_lexed.python" = ""

    [[rule]]
    name = "tabs"
    signal = "my_signals:share_of_tabs"
    drop = { code = "> 0.5" }
    catches = "code that is mostly indentation"

A signal is a function of a ``FileView``: a number, or None for a file without one. Its module is
searched for next to the file first.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dph._base.import_path import load_callable, source_fingerprint
from dph.errors import DataError, SettingsError
from dph_corpus.rules.presets import (
    PRESETS,
    FilterRule,
    Preset,
    load_preset,
    rule_of,
    with_thresholds,
)
from dph_corpus.signals.own_signals import OWN_SIGNALS

SUFFIX = ".toml"
"""End of the name of a file of rules; other names are those of presets."""
_KEYS = ("base", "thresholds", "rule")
_RULE_KEYS = {"name": str, "signal": str, "drop": dict, "catches": str, "thinned": bool}


def open_preset(name: str, thresholds: Mapping[str, str] | None = None) -> Preset:
    """The preset ``name``, or the one of the file ``name``, with other ``thresholds``."""
    found = read_preset(Path(name)) if name.endswith(SUFFIX) else load_preset(name)
    return with_thresholds(found, thresholds or {})


def read_preset(path: Path) -> Preset:
    """The preset that a file describes; its name is the file's without the suffix."""
    table = _table(path)
    base = table.get("base")
    if base is not None and base not in PRESETS:
        raise SettingsError(f"{path}: base must be one of {', '.join(PRESETS)}, got {base!r}")
    start = load_preset(base) if base else Preset("", {}, {}, {}, released_names=False)
    own: dict[str, FilterRule] = {}
    for row in table.get("rule", ()):
        rule = _rule(row, path, start)
        if rule.name in own:
            raise SettingsError(f"{path}: the rule {rule.name!r} occurs twice")
        own[rule.name] = rule
    rules = {**start.rules, **own}
    thresholds = table.get("thresholds", {})
    if strange := [key for key, text in thresholds.items() if not isinstance(text, str)]:
        raise SettingsError(
            f"{path}: the threshold of {strange[0]} must be a text such as '> 0.5', got "
            f"{thresholds[strange[0]]!r}"
        )
    preset = replace(start, name=path.stem, rules=rules)
    if not rules:
        raise SettingsError(f"{path} has no rules: name a base, or add [[rule]] tables")
    try:
        return with_thresholds(preset, thresholds)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def preset_text(base: str, thresholds: Mapping[str, str]) -> str:
    """A file of rules: a named preset with other thresholds."""
    if base not in PRESETS:
        raise SettingsError(
            f"thresholds are saved over a named preset ({', '.join(PRESETS)}); write those of a "
            f"file under [thresholds] in {base}"
        )
    lines = [f"{json.dumps(key)} = {json.dumps(text)}" for key, text in sorted(thresholds.items())]
    return "\n".join([f'base = "{base}"', "", "[thresholds]", *lines, ""])


def fingerprints(preset: Preset) -> dict[str, str]:
    """Digests of the modules of a preset's own signals, by their import paths."""
    return {
        rule.signal: source_fingerprint(rule.signal.partition(":")[0], [Path(rule.directory)])
        for rule in preset.rules.values()
        if rule.signal
    }


def _table(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"cannot read the rules {path}: {error}") from error
    if unknown := sorted(set(table) - set(_KEYS)):
        raise SettingsError(f"{path}: unknown key {unknown[0]!r}; keys are {', '.join(_KEYS)}")
    for key, kind, form in (("thresholds", dict, "a table"), ("rule", list, "[[rule]] tables")):
        if not isinstance(table.get(key, kind()), kind):
            raise SettingsError(f"{path}: {key} must be {form}, got {table[key]!r:.80}")
    return table


def _rule(row: Any, path: Path, start: Preset) -> FilterRule:
    """A rule of the file; without a signal of its own it is that of the base, changed."""
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise SettingsError(f"{path}: a rule needs a name, got {row!r:.80}")
    place = f"{path}: rule {row['name']}"
    for key, value in row.items():
        if key not in _RULE_KEYS:
            raise SettingsError(f"{place}: unknown key {key!r}; keys are {', '.join(_RULE_KEYS)}")
        if not isinstance(value, _RULE_KEYS[key]):
            raise SettingsError(f"{place}: {key} cannot be {value!r:.80}")
    known = start.rules.get(row["name"])
    if "signal" not in row and known is None and row["name"] not in OWN_SIGNALS:
        raise SettingsError(
            f"{place} needs a signal, the import path 'module:function' of a function of a "
            f"FileView: neither the base nor the package has a signal of that name"
        )
    if known is not None and "signal" in row:
        raise SettingsError(f"{place}: the base has a rule of that name; choose another name")
    said = {key: row[key] for key in ("catches", "thinned") if key in row}
    if known is not None and "drop" not in row:
        return replace(known, **said)
    if "drop" not in row:
        raise SettingsError(f"{place} needs drop, conditions by kinds such as {{ code = '> 0.5' }}")
    try:
        rule = rule_of({"file": "", "catches": "", **row})
    except (ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"{place}: {error}") from error
    if rule.signal:
        directory = path.resolve().parent
        load_callable(rule.signal, [directory])
        return replace(rule, directory=str(directory))
    return rule if known is None else replace(known, conditions=rule.conditions, **said)
