"""Thresholds of one's own in the place of a preset's."""

import difflib
from collections.abc import Mapping
from dataclasses import replace

from dph.corpus.rules.presets import Preset
from dph.corpus.rules.rule import KINDS, Condition, Rule, parse_condition
from dph.errors import SettingsError

_ALL_KINDS = tuple(kind for members in KINDS.values() for kind in members)


def with_thresholds(preset: Preset, thresholds: Mapping[str, str]) -> Preset:
    """A preset whose rules drop files by other conditions.

    Args:
        preset: what stays where nothing is said.
        thresholds: conditions (``"< 2 or > 10"``, or "" to leave the rule out) by ``RULE``, for all
            kinds that it has, or by ``RULE.KIND``, a kind or family of ``KINDS``. A kind wins over
            its family, and that over the rule alone, whatever their order.

    Raises:
        SettingsError: there is no such rule, it does not read such files, or a condition cannot
            be read; the message says what is allowed.
    """
    rules = dict(preset.rules)
    for key in sorted(thresholds, key=_breadth):
        name, _, kind = key.partition(".")
        if name not in preset.rules:
            near = difflib.get_close_matches(name, preset.rules, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SettingsError(
                f"the preset {preset.name} has no rule {name!r}{hint} "
                f"(`dph corpus rules --preset {preset.name}` lists them)"
            )
        rules[name] = _changed(rules[name], preset.rules[name], kind, thresholds[key])
    return replace(preset, rules=rules)


def _breadth(key: str) -> int:
    _, _, kind = key.partition(".")
    return 0 if not kind else 1 if kind in KINDS else 2


def _changed(rule: Rule, original: Rule, kind: str, text: str) -> Rule:
    """``rule`` with a condition for the kinds of ``kind`` that it reads by itself."""
    if kind and kind not in (*KINDS, *_ALL_KINDS):
        raise SettingsError(
            f"a kind of files is one of {', '.join((*KINDS, *_ALL_KINDS))}, got {kind!r}"
        )
    named = KINDS.get(kind, (kind,)) if kind else _ALL_KINDS
    kinds = [each for each in named if each in original.conditions]
    if not kinds:
        raise SettingsError(
            f"the rule {rule.name} does not read {kind}: {', '.join(original.conditions)}"
        )
    conditions: dict[str, Condition] = dict(rule.conditions)
    for each in kinds:
        if text.strip():
            conditions[each] = _condition(rule.name, text.strip())
        else:
            conditions.pop(each, None)
    return replace(rule, conditions=conditions)


def _condition(name: str, text: str) -> Condition:
    try:
        return parse_condition(text)
    except ValueError as error:
        raise SettingsError(
            f"the threshold of {name} is a comparison such as '> 0.5' or '< 2 or > 10', or '' to "
            f"leave the rule out; got {text!r}"
        ) from error
