"""What runs are called in a table: as much of their paths as tells them apart."""

from collections.abc import Sequence
from pathlib import Path


def run_labels(runs: Sequence[Path]) -> dict[str, str]:
    """The shortest end of each path that no other path has, by the path as it was given.

    >>> run_labels([Path("/runs/a/x"), Path("/runs/b/x"), Path("/runs/c")])
    {'/runs/a/x': 'a/x', '/runs/b/x': 'b/x', '/runs/c': 'c'}
    """
    parts = {str(run): run.absolute().parts for run in runs}
    return {
        run: _shortest(mine, [other for name, other in parts.items() if name != run])
        for run, mine in parts.items()
    }


def _shortest(mine: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    for count in range(1, len(mine)):
        end = mine[-count:]
        if all(other[-count:] != end for other in others):
            return "/".join(end)
    return str(Path(*mine))
