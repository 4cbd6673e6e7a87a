"""What the suite consists of."""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.benchmarks.speed.shapes import AT_ONCE, REAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A module with ``measure(case, run)``, its cases, and whether it needs TRL."""

    module: str
    cases: tuple[str, ...]
    needs_trl: bool = False


SUITE: Mapping[str, Bench] = {
    "full_step": Bench(
        module="lab.benchmarks.speed.full_step",
        cases=("long", "stops", "short", *REAL),
        needs_trl=True,
    ),
    "step_memory": Bench(
        module="lab.benchmarks.speed.step_memory", cases=("long",), needs_trl=True
    ),
    "trl_shared": Bench(
        module="lab.benchmarks.speed.trl_shared", cases=tuple(AT_ONCE), needs_trl=True
    ),
    "sampling": Bench(module="lab.benchmarks.speed.sampling", cases=("full", "early", *REAL)),
    "overheads": Bench(
        module="lab.benchmarks.speed.overheads",
        cases=("short", "stops", "long", "stops_apart", "schemas", "unrelated"),
    ),
}


def selected(only: str, *, without_trl: bool = False) -> list[tuple[str, str]]:
    """The benches and cases that ``only`` names, in the suite's order; all if empty.

    >>> selected("full_step/long,sampling/early")
    [('full_step', 'long'), ('sampling', 'early')]

    Raises:
        ValueError: a name is unknown.
    """
    known = [
        (name, case)
        for name, bench in SUITE.items()
        if not (without_trl and bench.needs_trl)
        for case in bench.cases
    ]
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    names = {name for name, _ in known} | {f"{name}/{case}" for name, case in known}
    for name in wanted:
        if name not in names:
            raise ValueError(f"no bench {name!r}; known: {', '.join(sorted(names))}")
    return [
        (name, case)
        for name, case in known
        if not wanted or name in wanted or f"{name}/{case}" in wanted
    ]
