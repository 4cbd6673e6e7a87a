"""Comparers of answers: prompts and answers in, classes out."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from dph.records import Problem

Classes = tuple[int | None, ...]
"""Of the answers to one prompt: those of one number agree; None has no result. Numbers count from
0 in the order in which the classes first occur."""


class Comparer(Protocol):
    """Puts answers to one prompt into classes, deterministically; other prompts change nothing.

    ``identity`` is all that the classes depend on, as JSON: ``name``, ``version``, ``settings``.
    """

    @property
    def identity(self) -> dict[str, Any]:
        """Name, version and settings."""
        ...

    def classes(
        self, problems: Sequence[Problem], answers: Sequence[Sequence[str | None]]
    ) -> list[Classes]:
        """The classes of the answers to each prompt; None stands for an answer that was cut off.

        Raises:
            DataError: a problem lacks what is needed to compare answers to it.
            VerifierError: who compares is broken.
        """
        ...

    def close(self) -> None:
        """Stop its worker processes, if there are any."""
        ...


def largest_class(classes: Classes) -> int | None:
    """The class that most answers are of, the first of several; None where there is no class.

    >>> largest_class((None, 0, 1, 1, 0)), largest_class((None,))
    (0, None)
    """
    sizes = Counter(number for number in classes if number is not None)
    return sizes.most_common(1)[0][0] if sizes else None  # of equal ones the first counted


def consensus_class(classes: Classes, voters: Sequence[Hashable]) -> int | None:
    """The class of most different voters, if two or more are of it; the first of several.

    ``voters`` has one for each answer: their numbers count answers, their texts count texts.

    >>> consensus_class((0, 1, 1, None), range(4)), consensus_class((0, 1, 1), ["a", "b", "b"])
    (1, None)
    """
    told = dict.fromkeys(zip(classes, voters, strict=True))
    sizes = Counter(number for number, _ in told if number is not None)
    number, size = next(iter(sizes.most_common(1)), (None, 0))  # of equal ones the first counted
    return number if size > 1 else None
