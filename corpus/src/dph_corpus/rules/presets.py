"""Tables of rules that belong together, by name."""

import difflib
import hashlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dph._base.import_path import load_callable
from dph.errors import SettingsError
from dph_corpus.packaged import packaged
from dph_corpus.signals.measuring import measure, signal_groups
from dph_corpus.signals.own_signals import OWN_SIGNALS
from dph_corpus.signals.shared_signals import Measure, Signal
from dph_corpus.signals.view import FileView

# A rule: a signal, what it is compared with, and for which kinds of files.

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
LANGUAGES = ("c", "cpp", "csharp", "go", "html", "java", "javascript", "python", "shell", "sql")
"""Languages with thresholds of their own; they are kinds of files."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text_en", "text_zh"),
    "code": (*LANGUAGES, "data", "others"),
}
"""Kinds of files, by family: Chinese text and other; languages, other code and other data."""


def kind_of_file(doc_type: str, language: str, natural_language: str) -> str | None:
    """The kind of a file, or None for one that no rule reads.

    >>> kind_of_file("data", "yaml", "en"), kind_of_file("data", "html", "en")
    ('data', 'html')
    """
    match doc_type:
        case "text":
            return "text_zh" if natural_language == "zh" else "text_en"
        case "code" | "data" if language in LANGUAGES:
            return language
        case "data":
            return "data"
        case "code":
            return "others"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Condition:
    """Comparisons of which one must hold, such as ``< 2 or > 10``."""

    text: str
    parts: tuple[tuple[str, float], ...]

    def holds(self, value: float | None) -> bool:
        """Whether ``value`` meets the condition; a missing one never does."""
        return value is not None and any(
            _COMPARISONS[sign](value, threshold) for sign, threshold in self.parts
        )


def parse_condition(text: str) -> Condition:
    """Read ``< 2 or > 10``."""
    parts = []
    for part in text.split(" or "):
        sign, _, number = part.partition(" ")
        if sign not in _COMPARISONS:
            raise ValueError(f"a condition compares by {', '.join(_COMPARISONS)}; got {text!r}")
        parts.append((sign, float(number)))
    return Condition(text, tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRule:
    """A row of a table of rules.

    Args:
        name: of the rule, and of its signal.
        conditions: when a file is dropped, by its kind.
        thinned: such a file is dropped with probability 0.8, by a hash of id and rule.
        catches: what the rule is for.
        example: repeated ``repeat`` times, the content of a file on which it fires.
        file: that file's name.
        dead: why it can never fire, or ''.
        reason: why the preset has it, if the released filter has not.
        signal: import path of a user-defined signal, whose value has the rule's name.
        directory: place that is searched for the signal's module first.
    """

    name: str
    conditions: Mapping[str, Condition]
    thinned: bool = False
    catches: str
    example: str = ""
    repeat: int = 1
    file: str
    dead: str = ""
    reason: str = ""
    signal: str = ""
    directory: str = ""

    def thresholds(self) -> str:
        """The conditions and their kinds as words, families where all of one agree."""
        by_text: dict[str, list[str]] = {}
        for kind, condition in self.conditions.items():
            by_text.setdefault(condition.text, []).append(kind)
        if len(by_text) == 1:
            text, kinds = next(iter(by_text.items()))
            return f"{text} ({_family(kinds)})"
        return "; ".join(f"{text} ({_family(kinds)})" for text, kinds in by_text.items())


def _family(kinds: Sequence[str]) -> str:
    for family, members in KINDS.items():
        missing = [kind for kind in members if kind not in kinds]
        if set(kinds) <= set(members) and len(missing) < len(kinds) and len(kinds) > 1:
            return family + (f" but {', '.join(missing)}" if missing else "")
    return ", ".join(kinds)


# The coin of thinned rules, thrown by a hash: the same for a file whenever it is thrown.

DROP_PROBABILITY = 0.8


def thinned_drops(document_id: str, rule: str) -> bool:
    """Whether a thinned rule that fires on a document drops it.

    Equation: SHA-256(rule, 0, id) / 2**256 < 0.8. Over ids it is a coin that falls so in 4 of 5
    cases, independently for every rule.
    Differs from the released filter: that draws anew, without a seed, in each run.
    """
    head = hashlib.sha256(f"{rule}\0{document_id}".encode()).digest()[:8]
    return int.from_bytes(head, "big") < DROP_PROBABILITY * 2**64


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
    rules: Mapping[str, FilterRule]
    left_out: Mapping[str, str]
    replaced: Mapping[str, str]
    released_names: bool

    def of_kind(self, kind: str) -> Mapping[str, tuple[FilterRule, Condition]]:
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
    """A preset by name."""
    if name not in PRESETS:
        raise SettingsError(f"a preset of rules is one of {', '.join(PRESETS)}; got {name!r}")
    base = PRESETS[name]
    table = packaged(f"rules/{name}.toml", dict[str, Any])
    rules = {} if base is None else dict(load_preset(base).rules)
    left_out = dict(table.get("left_out", {}))
    for gone in left_out:
        del rules[gone]
    replaced = {}
    for row in table["rule"]:
        if old := row.pop("replaces", None):
            replaced[row["name"]] = old
            del rules[old]
        rules[row["name"]] = rule_of(row)
    return Preset(name, rules, left_out, replaced, released_names=base is None)


def rule_of(row: Mapping[str, Any]) -> FilterRule:
    """The rule of a row of a table of rules; its conditions are under ``drop``, by kinds."""
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
    return FilterRule(conditions=conditions, **facts)


# User-defined thresholds in the place of a preset's.

_ALL_KINDS = tuple(kind for members in KINDS.values() for kind in members)


def with_thresholds(preset: Preset, thresholds: Mapping[str, str]) -> Preset:
    """A preset whose rules drop files by other conditions.

    Args:
        preset: what stays where nothing is said.
        thresholds: conditions (``"< 2 or > 10"``, or "" to leave the rule out) by ``RULE``, for all
            kinds that it has, or by ``RULE.KIND``, a kind or family of ``KINDS``. A kind wins over
            its family, and that over the rule alone, whatever their order.
    """
    rules = dict(preset.rules)
    for key in sorted(thresholds, key=_breadth):
        name, _, kind = key.partition(".")
        if name not in preset.rules:
            near = difflib.get_close_matches(name, preset.rules, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SettingsError(
                f"the preset {preset.name} has no rule {name!r}{hint} "
                f"(`dph-corpus rules --preset {preset.name}` lists them)"
            )
        rules[name] = _changed(rules[name], preset.rules[name], kind, thresholds[key])
    return replace(preset, rules=rules)


def _breadth(key: str) -> int:
    _, _, kind = key.partition(".")
    return 0 if not kind else 1 if kind in KINDS else 2


def _changed(rule: FilterRule, original: FilterRule, kind: str, text: str) -> FilterRule:
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
            f"the threshold of {name} must be a comparison such as '> 0.5' or '< 2 or > 10', or "
            f"'' to disable the rule; got {text!r}"
        ) from error


# What the rules of a preset say of a file.


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """A rule's word on a file.

    ``fires`` is the condition on the value alone; ``drops`` what becomes of it, which differs
    where a thinned rule lets the file pass.
    """

    rule: str
    value: float | None
    threshold: str
    fires: bool
    thinned: bool
    drops: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """Full judgement of a preset on a file.

    ``kind`` is None for a file that no rule reads: it is dropped unread.
    """

    kind: str | None
    verdicts: Sequence[RuleVerdict]
    values: Mapping[str, float | None]
    failures: Mapping[str, str]

    @property
    def dropping(self) -> list[RuleVerdict]:
        """The rules that drop the file."""
        return [verdict for verdict in self.verdicts if verdict.drops]


def judge(preset: Preset, view: FileView, *, document_id: str, doc_type: str) -> Judgement:
    """Measure a file's signals and apply the rules for its kind."""
    kind = kind_of_file(doc_type, view.language, view.natural_language)
    if kind is None:
        return Judgement(None, (), {}, {})
    rules = preset.of_kind(kind)
    own = tuple(OWN_SIGNALS[name] for name in rules if name in OWN_SIGNALS)
    users = [(_users_signal(rule),) for rule, _ in rules.values() if rule.signal]
    measured = measure(view, (*signal_groups(doc_type, view.language), own, *users))
    verdicts = []
    for name, (rule, condition) in rules.items():
        value = measured.values.get(name)
        fires = condition.holds(value)
        drops = fires and (not rule.thinned or thinned_drops(document_id, name))
        verdicts.append(RuleVerdict(name, value, condition.text, fires, rule.thinned, drops))
    return Judgement(kind, verdicts, measured.values, measured.failures)


def _users_signal(rule: FilterRule) -> Signal:
    return Signal(rule.name, _loaded(rule.signal, rule.directory))


@cache
def _loaded(signal: str, directory: str) -> Measure:
    found: Measure = load_callable(signal, [Path(directory)])
    return found


# The rules as a page of documentation: docs/corpus-rules.md is what this makes.

_RELEASED = "opencoder"


def rules_document() -> str:
    """The page, as Markdown."""
    released = load_preset(_RELEASED)
    head = files("dph_corpus.rules").joinpath("head.md").read_text(encoding="utf-8")
    parts = [head, "## opencoder\n", _table(released.rules.values()), _dead(released)]
    for name, base in PRESETS.items():
        if base is not None:
            parts += [f"## {name}\n", _changes(load_preset(name), load_preset(base))]
    return "\n".join(parts).rstrip("\n") + "\n"


def _table(rules: Iterable[FilterRule]) -> str:
    lines = ["| rule | drops | catches | example |", "|---|---|---|---|"]
    for rule in rules:
        coin = ", *4 of 5*" if rule.thinned else ""
        drops = f"{rule.thresholds()}{coin}"
        lines.append(f"| `{rule.name}` | {drops} | {_cell(rule.catches)} | {_example(rule)} |")
    return "\n".join(lines) + "\n"


def _example(rule: FilterRule) -> str:
    if rule.dead:
        return "none: it never fires"
    text = rule.example.rstrip("\n").replace("\n", "⏎").replace("|", "\\|")
    short = text if len(text) <= 90 else text[:87] + "..."
    times = f" x {rule.repeat}" if rule.repeat > 1 else ""
    return f"`` {short} ``{times} ({rule.file})"


def _dead(preset: Preset) -> str:
    lines = ["Three of these rules can never fire, as released:\n"]
    lines += [f"- `{r.name}`: {r.dead}." for r in preset.rules.values() if r.dead]
    return "\n".join(lines) + "\n"


def _changes(preset: Preset, base: Preset) -> str:
    new = [rule for name, rule in preset.rules.items() if base.rules.get(name) != rule]
    parts = [_table(new), "Why:\n"]
    parts += [
        f"- `{rule.name}`{_in_place_of(preset.replaced, rule)}: {rule.reason}." for rule in new
    ]
    parts += [f"- without `{name}`: {reason}." for name, reason in preset.left_out.items()]
    return "\n".join(parts) + "\n"


def _in_place_of(replaced: Mapping[str, str], rule: FilterRule) -> str:
    old = replaced.get(rule.name)
    return f" in place of `{old}`" if old else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
