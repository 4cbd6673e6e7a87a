"""Whether a program printed what it should.

As LiveCodeBench does it: the texts are stripped and cut into lines, each line is stripped, and a
line is right if it is equal, or if its words are the same numbers, compared exactly: 1.0 for 1,
not 0.3333 for 1/3. The number of lines has to be the same.
"""

from decimal import Decimal, InvalidOperation

_LONGEST_NUMBER = 1000


def same_output(printed: str, expected: str) -> bool:
    r"""Whether two outputs are the same.

    >>> same_output("1.0  2\nyes \n", "1 2.00\nyes"), same_output("1 2", "1\n2")
    (True, False)
    """
    ours, theirs = _lines(printed), _lines(expected)
    return len(ours) == len(theirs) and all(map(_same_line, ours, theirs))


def first_difference(printed: str, expected: str) -> str:
    """The first line that is not the same, for people."""
    ours, theirs = _lines(printed), _lines(expected)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), start=1):
        if not _same_line(one, other):
            return f"line {number} is {one[:80]!r}, {other[:80]!r} was expected"
    return f"{len(ours)} lines were printed, {len(theirs)} expected"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(one: str, other: str) -> bool:
    if one == other:
        return True
    ours, theirs = one.split(), other.split()
    return len(ours) == len(theirs) and all(map(_same_number, ours, theirs))


def _same_number(one: str, other: str) -> bool:
    if max(len(one), len(other)) > _LONGEST_NUMBER:
        return False
    try:
        ours, theirs = Decimal(one), Decimal(other)
    except InvalidOperation:
        return False
    return ours.is_finite() and theirs.is_finite() and ours == theirs
