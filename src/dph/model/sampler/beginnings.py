"""What prompts begin with alike: schemas, templates, earlier turns."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

LEAST_SHARED = 16
"""Prompts that begin with fewer tokens alike run them each, as in the training forward."""


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """How many tokens, or letters, two prompts begin with alike.

    >>> common_length((1, 2, 3), (1, 2, 4, 5))
    2
    """
    pairs = zip(one, other, strict=False)
    differing = (at for at, (a, b) in enumerate(pairs) if a != b)
    return next(differing, min(len(one), len(other)))


def families(prompts: Iterable[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Distinct prompts in sorted order, cut where less than half of two neighbours is alike.

    Questions on one schema are a family; prompts that have a template in common need not be.

    >>> schema = (1,) * 16
    >>> [len(family) for family in families([(*schema, 2), (*schema, 3), (4, 5)])]
    [2, 1]
    """
    found: list[list[tuple[int, ...]]] = []
    for before, prompt in pairwise([(), *sorted(set(prompts))]):
        alike = common_length(before, prompt)
        if alike < LEAST_SHARED or 2 * alike < max(len(before), len(prompt)):
            found.append([])
        found[-1].append(prompt)
    return found
