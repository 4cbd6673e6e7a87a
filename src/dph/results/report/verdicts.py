"""Verdicts on runs, one sentence each: gains and losses with intervals, ranked by what matters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from dph.results.report.report_data import ReportData, ReportRun, rows_over_seeds
from dph.results.vocabulary import metric_title, where_of
from dph.runs.evaluate.comparison import ComparisonRow
from dph.runs.evaluate.intervals import Band, Difference, places_of

FIRST_TRY = "greedy"
_PASS = "pass_at_"
_MOST_SETS = 3
"""Sets that a sentence names; those that changed most."""
Sets = Mapping[str, Any]
"""Of a document: what was measured or found on each set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictPart:
    """A part of a sentence; ``lost`` has the problems that it speaks of, a number for each set."""

    text: str
    lost: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """Gains and losses of a run against a baseline, on every set that both were evaluated on.

    ``rows`` are the run's, of ``dph.compare``; ``bands`` those of Pass@k by set. ``ways`` has the
    effective number of styles, the run's and the baseline's, by set; ``lost`` the number of
    problems lost, by set; ``alone`` that of problems that only the baseline solved, where chance
    does not explain them; ``unnamed`` a sentence by set for which too few answers were drawn to
    name a problem lost. All lack the sets on which that is not known. With several ``seeds`` all
    are means over them (bands and unnamed are left out); ``planned`` is the number of seeds with
    those that are not evaluated yet.
    """

    run: str
    baseline: str
    rows: Sequence[ComparisonRow]
    bands: Mapping[str, Band] = field(default_factory=dict)
    ways: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)
    alone: Mapping[str, float] = field(default_factory=dict)
    unnamed: Sequence[str] = ()
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
        """True if anything differs from the baseline by more than its interval."""
        told = any(band.above or band.below for band in self.bands.values())
        return told or any(one.is_clear for one in self._compared) or any(self.lost.values())

    @property
    def rank(self) -> tuple[float, ...]:
        """Sorts verdicts by what matters: problems lost, then the clearest change, ties last."""
        clearest = max((change.clearness for change in self._compared), default=0.0)
        return (not self.is_told_apart, -sum(self.lost.values()), -clearest)

    def parts(self) -> list[VerdictPart]:
        """First try, the largest Pass@k, the k that gain and lose, ways of answering, losses.

        Of each only what differs by more than chance, with the sets on which it does.
        """
        texts = [f"{self.seeds} of {self.planned} seeds evaluated"] * (self.seeds < self.planned)
        lost: list[VerdictPart] = []
        if not self._compared:
            texts.append(f"nothing to compare with {self.baseline}")
        elif not self.is_told_apart:
            *first, last = map(where_of, self.sets)
            where = f"{', '.join(first)} and {last}" if first else last
            texts.append(f"cannot be distinguished from {self.baseline} {where}")
            bounds = (bound for one in self._compared for bound in (one.of.lo, one.of.hi))
            widest = 100 * max(map(abs, bounds))
            texts.append(f"every difference is within {widest:.1f} points")
        else:
            texts += [self._metric(metric) for metric in self._metrics]
            texts += [*self._reach(), self._ways()]
            counts = {name: count for name, count in self.lost.items() if count}
            if total := sum(counts.values()):
                text = f"{total:g} problem{'s' * (total != 1)} lost{' a seed' * (self.seeds > 1)}"
                lost.append(VerdictPart(text=text, lost=counts))
            if alone := sum(self.alone.values()):
                lost.append(VerdictPart(text=f"{alone:g} solved only by {self.baseline}"))
        lost += [VerdictPart(text=text) for text in self.unnamed]
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
        passes = (metric for metric in metrics if metric.startswith(_PASS))
        largest = max(passes, key=lambda one: int(one.removeprefix(_PASS)), default=None)
        return [metric for metric in (first, largest) if metric in metrics]

    def _metric(self, metric: str) -> str:
        rows = {row.set_name: row for row in self._compared if row.metric == metric}
        clear = [name for name in self.sets if name in rows and rows[name].is_clear]
        title = "first try" if metric == FIRST_TRY else metric_title(metric)
        if not clear:
            return f"{title} unchanged within chance"
        named = clear[:_MOST_SETS]
        texts = [rows[name].interval + self._where(name) for name in named]
        more = f" and on {len(clear) - len(named)} more sets" if len(clear) > len(named) else ""
        return f"{title} {', '.join(texts)}{more}"

    def _where(self, name: str) -> str:
        """The set, if there are several."""
        return f" {where_of(name)}" if len({row.set_name for row in self._compared}) > 1 else ""

    def _reach(self) -> list[str]:
        """The k at which the run is above and below the baseline, on the first sets."""
        named = [name for name in self.sets if name in self.bands]
        found = [name for name in named if self.bands[name].above or self.bands[name].below]
        return [
            f"Pass@k{self._where(name)} above {self.baseline} {places_of(band.above, ks)}, below "
            f"it {places_of(band.below, ks)} ({100 * band.level:.0f}%, all k together)"
            for name in found[:_MOST_SETS]
            for band in [self.bands[name]]
            for ks in [tuple(band.bounds)]
        ]

    def _ways(self) -> str:
        fewest = min(self.ways, key=lambda n: self.ways[n][0] / self.ways[n][1], default=None)
        if fewest is None:
            return ""
        left, of = self.ways[fewest]
        if round(left, 1) >= round(of, 1):
            return ""
        where = f" {where_of(fewest)}" if len(self.ways) > 1 else ""
        return f"{left:.1f} of {of:.1f} ways of answering left{where}"


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


def verdict_against(
    names: tuple[str, str],
    rows: Sequence[ComparisonRow],
    bands: Mapping[str, Band],
    evaluations: Sequence[Mapping[str, Any] | None],
    diagnosed: Sets,
) -> RunVerdict:
    """The verdict on a run against another, from ``evaluation.json`` of both and the diagnosis."""
    mine, theirs = ((one or {}).get("sets", {}) for one in evaluations)
    ways = {
        name: (of.get("effective_styles"), theirs[name].get("effective_styles"))
        for name, of in mine.items()
        if name in theirs
    }
    totals = {name: of["totals"]["solved_before_alone"] for name, of in diagnosed.items()}
    above = [n for n, of in totals.items() if of["named"] and of["observed"] > of["expected"]]
    sentences = [one for of in diagnosed.values() for one in of["sentences"]]
    return RunVerdict(
        run=names[0],
        baseline=names[1],
        rows=rows,
        bands=bands,
        ways={name: (a, b) for name, (a, b) in ways.items() if a is not None and b},
        lost={name: of["counts"]["lost"] for name, of in diagnosed.items()},
        alone={name: totals[name]["observed"] for name in above},
        unnamed=[one["text"].rstrip(".") for one in sentences if one["about"] == "too_few_answers"],
    )


# Verdicts on the runs of a report.


def verdict_lines(data: ReportData) -> list[dict[str, Any]]:
    """A line for every run that can be compared, ranked; it says which seeds are not evaluated.

    A line is on a run, or on the ``runs`` that differ only in their seed.
    """
    if not data.comparison:
        return []
    grouped = {group.key: group.runs for group in data.groups}
    runs = {key: grouped.get(key, [key]) for key in data.folded}
    labels = {key: label for key, (label, _) in data.drawn.items()}
    found: dict[str, RunVerdict] = {}
    for key, keys in runs.items():
        evaluated = [run for run in data.runs if run.key in keys and run.scores and not run.is_base]
        if evaluated and not any(_baseline(data, run).key in keys for run in evaluated):
            found[key] = of_seeds(data, labels[key], evaluated, planned=len(keys))
    ranked = sorted(found, key=lambda key: found[key].rank)
    return [
        {"key": key, "label": labels[key], "runs": runs[key], "parts": found[key].parts()}
        for key in ranked
    ]


def run_verdict(data: ReportData, run: ReportRun) -> RunVerdict:
    """The verdict on one run, against its own initial policy where that was evaluated."""
    baseline = _baseline(data, run)
    return verdict_against(
        (run.label, baseline.label),
        data.against_own.get(run.key, []),
        data.bands.get(run.key, {}),
        (run.evaluation, baseline.evaluation),
        data.diagnoses.get(run.key, {}).get("sets", {}),
    )


def _baseline(data: ReportData, run: ReportRun) -> ReportRun:
    if run.baseline is not None:
        return data.run(run.baseline)
    return data.run(next(iter(data.comparison.values()))[0].run)


def of_seeds(
    data: ReportData, label: str, evaluated: Sequence[ReportRun], *, planned: int
) -> RunVerdict:
    """Means over seeds with intervals over seeds; of a single seed, its own verdict."""
    each = [run_verdict(data, run) for run in evaluated]
    if len(each) == 1:
        return replace(each[0], run=label, planned=planned)
    baselines = {one.baseline for one in each}
    ways = [name for name in each[0].ways if all(name in one.ways for one in each)]
    lost = dict.fromkeys(name for one in each for name in one.lost)
    return RunVerdict(
        run=label,
        baseline=each[0].baseline if len(baselines) == 1 else "their initial policies",
        rows=rows_over_seeds(label, [one.rows for one in each]),
        ways={
            name: (fmean(of.ways[name][0] for of in each), fmean(of.ways[name][1] for of in each))
            for name in ways
        },
        lost={name: _mean_count([one.lost.get(name, 0) for one in each]) for name in lost},
        alone={name: _mean_count([one.alone.get(name, 0) for one in each]) for name in lost},
        seeds=len(each),
        planned=planned,
    )


def _mean_count(counts: Sequence[float]) -> float:
    """The mean with one decimal, and without one if it is whole."""
    mean = round(fmean(counts), 1)
    return int(mean) if mean.is_integer() else mean


# The index of diagnoses.


def diagnosed_runs(data: ReportData) -> list[dict[str, Any]]:
    """The runs with a diagnosis: those that lost most first, those without any change last.

    ``changed`` are the sets on which anything was found.
    """
    found = []
    for run in (run for run in data.runs if run.key in data.diagnoses):
        sets = data.diagnoses[run.key]["sets"]
        lost, gained = (sum(of["counts"][c] for of in sets.values()) for c in ("lost", "gained"))
        changed = [name for name, of in sets.items() if _is_changed(of)]
        found.append({"run": run, "lost": lost, "gained": gained, "changed": changed})
    return sorted(found, key=lambda one: (not one["changed"], -one["lost"], -one["gained"]))


def _is_changed(of_set: Mapping[str, Any]) -> bool:
    """True if anything on a set is beyond what two draws of one model would show."""
    counts, totals = of_set["counts"], of_set["totals"]
    named = any(one["named"] for one in totals.values())
    died = any(style["died"] for style in of_set["styles"])
    parts = (of_k["parts"]["total"] for of_k in of_set["pass_at_k"].values())
    clear = any(not part["ci95"][0] <= 0 <= part["ci95"][1] for part in parts)
    return bool(counts["lost"] or counts["gained"] or named or died or clear)
