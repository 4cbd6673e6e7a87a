"""Splitting the problems by what the initial policy already masters."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dph.recipe.choices import WrongFinal


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Problem ids by side; every problem is on exactly one."""

    exploration: tuple[str, ...]
    rehearsal: tuple[str, ...]
    discarded: tuple[str, ...]
    ungradable: tuple[str, ...] = ()


def partition(
    correct: Mapping[str, int],
    final_correct: Mapping[str, bool],
    *,
    threshold: int,
    wrong_final: WrongFinal,
    ungradable: Collection[str] = (),
) -> Partition:
    """Split problems into those to explore, to rehearse, to discard, and those without a verdict.

    A problem solved at least ``threshold`` times is near-perfect and is rehearsed if its final,
    extra sample is correct too. If that one is wrong there is nothing to rehearse: the problem is
    discarded, or explored with the rest (``wrong_final``). An ``ungradable`` problem is on the
    side of that name however often it was solved. Order is that of ``correct``.

    **Source**: arXiv:2509.07430, section 4 (pre-sampling stage).

    >>> partition({"a": 8, "b": 3, "c": 7, "d": 0}, {"a": True, "b": True, "c": False, "d": False},
    ...           threshold=7, wrong_final="discard", ungradable={"d"})
    Partition(exploration=('b',), rehearsal=('a',), discarded=('c',), ungradable=('d',))
    """
    sides: dict[str, list[str]] = {"explore": [], "rehearse": [], "discard": [], "ungradable": []}
    for problem_id, count in correct.items():
        if problem_id in ungradable:
            side = "ungradable"
        elif count < threshold:
            side = "explore"
        elif final_correct[problem_id]:
            side = "rehearse"
        else:
            side = wrong_final
        sides[side].append(problem_id)
    return Partition(
        exploration=tuple(sides["explore"]),
        rehearsal=tuple(sides["rehearse"]),
        discarded=tuple(sides["discard"]),
        ungradable=tuple(sides["ungradable"]),
    )


def histogram(correct: Sequence[int], samples: int) -> tuple[int, ...]:
    """How many problems were solved 0, 1, ... ``samples`` times.

    >>> histogram([0, 2, 2], samples=2)
    (1, 0, 2)
    """
    counts = [0] * (samples + 1)
    for count in correct:
        counts[count] += 1
    return tuple(counts)
