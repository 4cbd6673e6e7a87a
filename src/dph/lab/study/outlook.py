"""How many runs there are, how many are finished, and how long the others will take."""

from collections.abc import Mapping
from dataclasses import dataclass

from dph.lab.study.costs import read_costs
from dph.lab.study.places import Places
from dph.lab.study.plan import Plan
from dph.lab.study.row_files import RowFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """``minutes`` are estimated for ``jobs`` runs at a time; ``guessed`` without any measurement.

    ``undecided`` runs wait for choices: they are in ``total`` and, as the mean of the others, in
    the minutes.
    """

    total: int
    finished: int
    undecided: int
    minutes: float
    jobs: int
    guessed: bool

    def __str__(self) -> str:
        if self.finished == self.total:
            return f"{self.finished} of {self.total} runs"
        minutes = f"about {self.minutes:.0f}" if self.minutes >= 1 else "less than 1"
        guess = " by a guess" if self.guessed else ""
        done = f"{self.finished} of {self.total} runs"
        return f"{done}, {minutes} min left{guess}, {self.jobs} at a time"


def outlook(plan: Plan, places: Places, rows: Mapping[str, RowFile], jobs: int) -> Outlook:
    """The outlook of a plan when these runs are finished."""
    costs = read_costs(places, rows)
    missing = plan.missing(rows)
    finished = len({run.id for run in plan.runs} & set(rows))
    undecided = plan.total - finished - len(missing)
    known = [costs.expected(run) for run in plan.runs]
    each = sum(known) / len(known) if known else 0.0
    return Outlook(
        total=plan.total,
        finished=finished,
        undecided=undecided,
        minutes=costs.left(missing, jobs) / 60 + undecided * each / jobs / 60,
        jobs=jobs,
        guessed=not costs.measured,
    )
