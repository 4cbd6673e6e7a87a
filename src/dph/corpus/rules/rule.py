"""A rule: a signal, what it is compared with, and for which kinds of files."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
    """Comparisons of which one has to hold, such as ``< 2 or > 10``."""

    text: str
    parts: tuple[tuple[str, float], ...]

    def holds(self, value: float | None) -> bool:
        """Whether ``value`` meets the condition; a missing one never does."""
        return value is not None and any(
            _COMPARISONS[sign](value, threshold) for sign, threshold in self.parts
        )


def parse_condition(text: str) -> Condition:
    """Read ``< 2 or > 10``.

    Raises:
        ValueError: it is written otherwise.
    """
    parts = []
    for part in text.split(" or "):
        sign, _, number = part.partition(" ")
        if sign not in _COMPARISONS:
            raise ValueError(f"a condition compares by {', '.join(_COMPARISONS)}; got {text!r}")
        parts.append((sign, float(number)))
    return Condition(text, tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
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
