"""Counting what looks like a function, a variable or a return in languages that are not parsed.

The expressions are those of the released filter in what they match; calls and control flow can
look like functions. They are written so that they cannot backtrack without end where that changes
no match, and none may search for longer than ten seconds.
"""

from collections.abc import Mapping

import regex

_SECONDS = 10.0


class LanguagePatterns:
    """Expressions by name, for one language.

    Args:
        expressions: each in verbose form; ``^`` and ``$`` hold at every line.
    """

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._compiled = {
            name: regex.compile(text, regex.MULTILINE | regex.VERBOSE)
            for name, text in expressions.items()
        }

    def count(self, name: str, code: str) -> int:
        """How often the expression matches.

        Raises:
            TimeoutError: the search takes too long.
        """
        return sum(1 for _ in self._compiled[name].finditer(code, timeout=_SECONDS))

    def matches(self, name: str, code: str) -> list[str]:
        """The first group of each match, or the match where there is none.

        Raises:
            TimeoutError: the search takes too long.
        """
        pattern = self._compiled[name]
        group = min(1, pattern.groups)
        return [match[group] for match in pattern.finditer(code, timeout=_SECONDS)]

    def found(self, name: str, code: str) -> bool:
        """Whether the expression matches anywhere.

        Raises:
            TimeoutError: the search takes too long.
        """
        return self._compiled[name].search(code, timeout=_SECONDS) is not None

    def total(self, names: tuple[str, ...], code: str) -> int:
        """Matches of several expressions together."""
        return sum(self.count(name, code) for name in names)
