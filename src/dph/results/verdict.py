"""One sentence a run: what it gained and lost, with intervals, ranked by what matters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dph.results.vocabulary import metric_title, where_of
from dph.runs.evaluate.comparison import ComparisonRow
from dph.runs.evaluate.intervals import Difference

FIRST_TRY = "greedy"
_PASS = "pass_at_"
_MOST_SETS = 3
"""Sets that a sentence names; those that changed most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictPart:
    """A part of a sentence; ``lost`` has the problems that it speaks of, a number for each set."""

    text: str
    lost: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """Gains and losses of a run against a baseline, on every set that both were evaluated on.

    ``rows`` are the run's, of ``dph.compare``. ``ways`` has the effective number of styles, the
    run's and the baseline's, by set; ``lost`` the number of problems lost, by set; ``alone`` that
    of problems that only the baseline solved, where chance does not explain them. All lack the sets
    on which that is not known. With several ``seeds`` all are means over them; ``planned`` is
    the number of seeds with those that are not evaluated yet.
    """

    run: str
    baseline: str
    rows: Sequence[ComparisonRow]
    ways: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    alone: Mapping[str, int] = field(default_factory=dict)
    seeds: int = 1
    planned: int = 1

    @property
    def sets(self) -> list[str]:
        """The sets, those first whose metrics moved most in units of their intervals."""
        moved: dict[str, float] = {}
        for row in self._compared:
            moved[row.set_name] = max(moved.get(row.set_name, 0.0), row.clearness)
        return sorted(moved, key=lambda name: -moved[name])

    @property
    def is_told_apart(self) -> bool:
        """Whether any metric differs from the baseline's by more than its interval."""
        return any(change.is_clear for change in self._compared) or any(self.lost.values())

    @property
    def rank(self) -> tuple[float, ...]:
        """Sorts verdicts by what matters: problems lost, then the clearest change, ties last."""
        clearest = max((change.clearness for change in self._compared), default=0.0)
        return (not self.is_told_apart, -sum(self.lost.values()), -clearest)

    def parts(self) -> list[VerdictPart]:
        """First try, the largest Pass@k, ways of answering, problems lost.

        Of each only what differs by more than chance, with the sets on which it does.
        """
        texts = [f"{self.seeds} of {self.planned} seeds evaluated"] * (self.seeds < self.planned)
        lost: list[VerdictPart] = []
        if not self._compared:
            texts.append(f"nothing to compare with {self.baseline}")
        elif not self.is_told_apart:
            texts.append(f"cannot be told from {self.baseline} {_and(self.sets)}")
            texts.append(self._widest())
        else:
            texts += [*(self._metric(metric) for metric in self._metrics), self._ways()]
            lost = self._problems()
            if alone := sum(self.alone.values()):
                lost.append(VerdictPart(text=f"{alone} solved by {self.baseline} alone"))
        return [*(VerdictPart(text=text) for text in texts if text), *lost]

    def sentence(self) -> str:
        """The verdict; differences are points of per cent with 95% intervals."""
        return f"{self.run}: {'; '.join(part.text for part in self.parts())}."

    @property
    def _compared(self) -> "list[_Change]":
        changes = (
            _Change(row.set_name, row.metric, row.difference)
            for row in self.rows
            if row.difference is not None
        )
        return [change for change in changes if change.metric in self._metrics]

    @property
    def _metrics(self) -> list[str]:
        """First try, or the mean where nothing was answered greedily; then the largest Pass@k."""
        metrics = list(dict.fromkeys(row.metric for row in self.rows if row.difference is not None))
        first = FIRST_TRY if FIRST_TRY in metrics else "mean"
        largest = max((m for m in metrics if m.startswith(_PASS)), key=_k, default=None)
        return [metric for metric in (first, largest) if metric in metrics]

    def _metric(self, metric: str) -> str:
        rows = {row.set_name: row for row in self._compared if row.metric == metric}
        clear = [name for name in self.sets if name in rows and rows[name].is_clear]
        title = "first try" if metric == FIRST_TRY else metric_title(metric)
        if not clear:
            return f"{title} unchanged within chance" if self.is_told_apart else ""
        named = clear[:_MOST_SETS]
        several = len({row.set_name for row in self._compared}) > 1
        texts = [
            f"{rows[name].interval}{f' {where_of(name)}' if several else ''}" for name in named
        ]
        more = f" and on {len(clear) - len(named)} more sets" if len(clear) > len(named) else ""
        return f"{title} {', '.join(texts)}{more}"

    def _ways(self) -> str:
        fewest = min(self.ways, key=lambda n: self.ways[n][0] / self.ways[n][1], default=None)
        if fewest is None:
            return ""
        left, of = self.ways[fewest]
        if round(left, 1) >= round(of, 1):
            return ""
        where = f" {where_of(fewest)}" if len(self.ways) > 1 else ""
        return f"{left:.1f} of {of:.1f} ways of answering left{where}"

    def _problems(self) -> list[VerdictPart]:
        lost = {name: count for name, count in self.lost.items() if count}
        total = sum(lost.values())
        text = (
            f"{total} problem{'' if total == 1 else 's'} lost{' a seed' if self.seeds > 1 else ''}"
        )
        return [VerdictPart(text=text, lost=lost)] if lost else []

    def _widest(self) -> str:
        bounds = [(change.of.lo, change.of.hi) for change in self._compared]
        widest = max(max(abs(lo), abs(hi)) for lo, hi in bounds)
        return f"every difference lies within {100 * widest:.1f} points"


@dataclass(frozen=True, slots=True)
class _Change:
    set_name: str
    metric: str
    of: Difference

    @property
    def interval(self) -> str:
        middle, lo, hi = (100 * x for x in (self.of.mean, self.of.lo, self.of.hi))
        return f"{middle:+.1f} ({lo:+.1f} to {hi:+.1f})"

    @property
    def is_clear(self) -> bool:
        return not self.of.lo <= 0 <= self.of.hi

    @property
    def clearness(self) -> float:
        """The difference in half widths of its interval."""
        half = (self.of.hi - self.of.lo) / 2
        return abs(self.of.mean) / half if half > 0 else abs(self.of.mean) * 1e9


def ways_left(
    mine: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None
) -> dict[str, tuple[float, float]]:
    """Effective styles of two evaluations, by set; without the sets on which one is unknown."""
    mine, theirs = ((one or {}).get("sets", {}) for one in (mine, theirs))
    numbers = {
        name: (of.get("effective_styles"), theirs[name].get("effective_styles"))
        for name, of in mine.items()
        if name in theirs
    }
    return {name: (a, b) for name, (a, b) in numbers.items() if a is not None and b}


def _k(metric: str) -> int:
    return int(metric.removeprefix(_PASS))


def _and(names: Sequence[str]) -> str:
    labels = [where_of(name) for name in names]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
