"""Characters that nobody sees, or that turn the direction of writing, as visible marks."""

import unicodedata

_KEPT = "\n\t"


def marked(text: str) -> str:
    r"""``text`` with every control and format character written out.

    The page's own script does the same with what it shows (browser/text.js).

    >>> marked("a\x1bb\u202ec")
    'a⟨U+001B⟩b⟨U+202E⟩c'
    """
    return "".join(
        f"⟨U+{ord(letter):04X}⟩" if letter not in _KEPT and _is_hidden(letter) else letter
        for letter in text
    )


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
