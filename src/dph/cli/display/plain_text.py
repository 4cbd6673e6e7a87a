"""Text that others made, on one line of a terminal and without commands to it."""

WIDEST = 60


def plain_text(text: str, *, widest: int = WIDEST) -> str:
    r"""One line of at most ``widest`` characters; what is not printable is a question mark.

    Control characters would move the cursor or colour the screen, and such as turn the direction of
    writing show another text than there is.

    >>> plain_text("a\x1b[31m b\n c")
    'a?[31m b c'
    >>> plain_text("abcdef", widest=4)
    'abc…'
    """
    line = " ".join(text.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= widest else f"{shown[: widest - 1]}…"
