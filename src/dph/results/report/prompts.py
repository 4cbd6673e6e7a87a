"""What a model was asked, as one line of a list."""

from collections.abc import Sequence, Set
from itertools import takewhile

from dph.records import Problem

_LINE = 96


def excerpts(problems: Sequence[Problem | None]) -> list[str]:
    """The end of each question on one line, without what all of them end with.

    What stands before it (a schema, examples) is often shared; "" where a problem is not known.

    >>> excerpts([Problem(problem_id=x, prompt=f"{x} + 1 =") for x in "ab"])
    ['a', 'b']
    """
    lines = [" ".join(_question(problem).split()) for problem in problems]
    shared = _shared_end({line for line in lines if line})
    return [_end(line[: len(line) - shared].rstrip()) if line else "" for line in lines]


def _shared_end(lines: Set[str]) -> int:
    """How many characters all lines end with; 0 where there is one line only."""
    backwards = sorted(line[::-1] for line in lines)
    if len(backwards) < 2:
        return 0
    pairs = zip(backwards[0], backwards[-1], strict=False)  # the most different two
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _question(problem: Problem | None) -> str:
    if problem is None:
        return ""
    return problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]


def _end(line: str) -> str:
    """At most ``_LINE`` characters, from a word's beginning on."""
    if len(line) <= _LINE:
        return line
    end = line[-_LINE:]
    return "… " + (end.partition(" ")[2] or end)
