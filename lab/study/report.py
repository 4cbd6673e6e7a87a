"""The material of a study's tables: its report, and the cells of means and differences."""

from collections.abc import Sequence
from dataclasses import dataclass

from dph.results.charts.text_table import UNKNOWN
from dph.results.over_seeds import SeedMean
from dph.results.vocabulary import set_label
from lab.study.paired_tests import PairedDifference
from lab.study.plan import Plan
from lab.study.results import Results
from lab.study.rule_lock import RuleLock
from lab.study.settings import BASE, Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Data of the tables."""

    study: Study
    plan: Plan
    results: Results
    lock: RuleLock

    @property
    def reference(self) -> str:
        """The label that differences are shown to."""
        return self.study.file.study.reference or self.study.labels[0]

    def shown(self, world: str) -> tuple[str, ...]:
        """The methods that the short table shows: ``study.shown``, and the base."""
        there = self.results.labels(world)
        named = self.study.file.study.shown
        return tuple(label for label in there if not named or label in (BASE, *named))

    def sets(self, world: str) -> tuple[str, ...]:
        """The sets that tables show: those that the rule chooses by, where it names some."""
        there = self.results.sets(world)
        named = self.study.rule.choose.sets or there
        return tuple(of for of in there if of in named) or there

    def metrics(self, world: str) -> tuple[str, ...]:
        """greedy, mean, Pass@16 (or the largest k below it), its front and styles, where known."""
        ks = self.results.ks(world)
        fitting = [k for k in ks if k <= 16] or ks
        kinds = ("pass", "front") if self.study.rule.fronts else ("pass",)
        many = [f"{kind}@{max(fitting)}" for kind in kinds if fitting]
        votes = tuple(f"maj@{k}" for k in self.results.ks(world, "maj_at_k"))
        return ("greedy", "mean", *many, *votes, "styles")

    def columns(self, world: str) -> list[tuple[str, str]]:
        """Every set with every metric: what a table of scores has columns for."""
        return [(of, metric) for of in self.sets(world) for metric in self.metrics(world)]

    def note(self, text: str) -> str:
        """A table's note: what it shows, and the rule."""
        return f"{text} {self.lock.note[0].upper()}{self.lock.note[1:]}."


def score_rows(
    report: Report, world: str, labels: Sequence[str], columns: Sequence[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    """The means of each label over the report seeds: its name, and a cell for each column."""
    estimate = report.results.estimate
    return tuple(
        (label, *(estimate_cell(estimate(world, label, m, [of]), m) for of, m in columns))
        for label in labels
    )


def titles(columns: Sequence[tuple[str, str]]) -> list[str]:
    """Set and metric in the head of each column."""
    return [f"{set_label(of)}: {metric_column(metric)}" for of, metric in columns]


def metric_column(name: str) -> str:
    """A metric in the head of a column."""
    return "mean@1" if name == "mean" else name


def estimate_cell(estimate: SeedMean | None, metric: str) -> str:
    """A mean with its interval: in per cent, but for styles."""
    if estimate is None:
        return UNKNOWN
    return str(estimate.times(1 if metric == "styles" else 100))


def points(found: PairedDifference | None, metric: str, *, interval: bool = True) -> str:
    """A difference with its interval: in percentage points, but for styles."""
    if found is None:
        return UNKNOWN
    scale = 1 if metric == "styles" else 100
    text = f"{round(scale * found.mean, 1) + 0.0:+.1f}"
    if found.hi is None or not interval:
        return text
    return f"{text} ± {scale * (found.hi - found.mean):.1f}"


def number_cell(value: float | None) -> str:
    """A value of a grid; what is not set is unknown."""
    return UNKNOWN if value is None else f"{value:g}"
