"""Near-duplicates of test questions: equal but for constants, and so answered by the same query."""

import re
from collections.abc import Iterable

_CONSTANT = re.compile(r"\b\d+\b|'[^']*'")


def without_constants(prompt: str) -> str:
    """A prompt with every number and every quoted text as one word.

    >>> without_constants("show fee of screening with turnout below 24 and site is 'Lima' ->")
    'show fee of screening with turnout below N and site is N ->'
    """
    return _CONSTANT.sub("N", prompt)


class NearDuplicates:
    """Prompts that equal one of ``tests`` but for constants.

    ``left_out`` holds those that somebody would have had, but for this.
    """

    def __init__(self, tests: Iterable[str]) -> None:
        self._forms = frozenset(map(without_constants, tests))
        self.left_out: set[str] = set()

    def leaves_out(self, prompt: str) -> bool:
        """Whether the prompt is one of them; it is counted then."""
        if without_constants(prompt) not in self._forms:
            return False
        self.left_out.add(prompt)
        return True
