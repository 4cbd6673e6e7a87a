"""Lines of a text: cut at newlines only, and each keeps its own, which counts in its length."""


def cut_lines(text: str) -> list[str]:
    r"""The lines of ``text``.

    A lone carriage return ends no line.

    >>> cut_lines("a\r\nb\rc")
    ['a\r\n', 'b\rc']
    """
    parts = text.split("\n")
    last = parts.pop()
    lines = [part + "\n" for part in parts]
    if last:
        lines.append(last)
    return lines


def not_blank(lines: list[str]) -> list[str]:
    """The lines that hold more than space."""
    return [line for line in lines if not line.isspace()]
