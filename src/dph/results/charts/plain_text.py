"""Text that a model wrote, made safe to print: what would steer a terminal is spelled out."""

import unicodedata

_KEPT = {"\n", "\t"}
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, formats (bidirectional overrides, invisible characters), surrogates, line ends."""


def visible(text: str) -> str:
    r"""``text`` with controls, escapes and invisible characters as ``\x1b`` or ``\u202e``.

    New lines and tabs stay.

    >>> visible("a\tb\x1b[2J\u202e")
    'a\tb\\x1b[2J\\u202e'
    """
    return "".join(map(_spelled, text))


def _spelled(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _STEERING:
        return character
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str, *, widest: int = 60) -> str:
    r"""``visible(text)`` on one line of at most ``widest`` characters.

    >>> one_line("a\x1b[31m b\n c")
    'a\\x1b[31m b c'
    >>> one_line("abcdef", widest=4)
    'abc…'
    """
    line = visible(" ".join(text.split()))
    return line if len(line) <= widest else f"{line[: widest - 1]}…"


def shortened(text: str, *, characters: int) -> str:
    """At most so many characters of a text, with what was left out in numbers.

    >>> shortened("abcdef", characters=4)
    'abcd ... (2 more characters)'
    """
    left = len(text) - characters
    return text if left <= 0 else f"{text[:characters]} ... ({left} more characters)"
