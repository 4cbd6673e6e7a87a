"""Texts of the template in addition to the table of runs: verdicts, turns and tools."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from dph.records import Outcome
from dph.results.report.report_data import ReportData, ReportRun, rows_over_seeds
from dph.results.verdict import RunVerdict, VerdictPart, ways_left
from dph.runs.evaluate import pass_at_k
from dph.tasks.environments import ToolResult, read_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictLine:
    """A verdict on a run, or on the ``runs`` that differ only in their seed."""

    key: str
    label: str
    runs: Sequence[str]
    parts: Sequence[VerdictPart]


def verdict_lines(data: ReportData) -> list[VerdictLine]:
    """A line for every run with something to compare it with, ranked by what matters.

    Seeds that are not evaluated yet are left out of their line, which says so.
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
        VerdictLine(key=key, label=labels[key], runs=runs[key], parts=found[key].parts())
        for key in ranked
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosedRun:
    """A run of the index of diagnoses; ``changed`` are the sets on which anything was found."""

    run: ReportRun
    lost: int
    gained: int
    changed: Sequence[str]


def diagnosed_runs(data: ReportData) -> list[DiagnosedRun]:
    """The runs with a diagnosis: those that lost most first, those without any change last."""
    found = [_diagnosed(data, run) for run in data.runs if run.key in data.diagnoses]
    return sorted(found, key=lambda one: (not one.changed, -one.lost, -one.gained))


def _diagnosed(data: ReportData, run: ReportRun) -> DiagnosedRun:
    sets = data.diagnoses[run.key]["sets"]
    counts = [of["counts"] for of in sets.values()]
    return DiagnosedRun(
        run=run,
        lost=sum(of["lost"] for of in counts),
        gained=sum(of["gained"] for of in counts),
        changed=[name for name, of in sets.items() if _is_changed(of)],
    )


def _is_changed(of_set: Mapping[str, Any]) -> bool:
    """Whether anything on a set is more than two draws of one model would show."""
    counts, totals = of_set["counts"], of_set["totals"]
    named = any(one["named"] for one in totals.values() if isinstance(one, Mapping))
    died = any(style["died"] for style in of_set["styles"])
    parts = (of_k["parts"]["total"] for of_k in of_set["pass_at_k"].values())
    clear = any(not part["ci95"][0] <= 0 <= part["ci95"][1] for part in parts)
    return bool(counts["lost"] or counts["gained"] or named or died or clear)


def run_verdict(data: ReportData, run: ReportRun) -> RunVerdict:
    """The verdict on one run, against its own initial policy where that was evaluated."""
    baseline = _baseline(data, run)
    sets = data.diagnoses.get(run.key, {}).get("sets", {})
    return RunVerdict(
        run=run.label,
        baseline=baseline.label,
        rows=data.against_own.get(run.key, []),
        ways=ways_left(run.evaluation, baseline.evaluation),
        lost={name: of["counts"]["lost"] for name, of in sets.items()},
        alone={
            name: of["totals"]["solved_before_alone"]["observed"]
            for name, of in sets.items()
            if of["totals"]["solved_before_alone"]["named"]
        },
    )


def _baseline(data: ReportData, run: ReportRun) -> ReportRun:
    if run.baseline is not None:
        return data.run(run.baseline)
    return data.run(next(iter(data.comparison.values()))[0].run)


def of_seeds(
    data: ReportData, label: str, evaluated: Sequence[ReportRun], *, planned: int
) -> RunVerdict:
    """Means over seeds; intervals speak of another seed, so few seeds have wide ones.

    The verdict on a single run or seed is its own, with intervals over problems.
    """
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
            name: (
                fmean(one.ways[name][0] for one in each),
                fmean(one.ways[name][1] for one in each),
            )
            for name in ways
        },
        lost={name: round(fmean(one.lost.get(name, 0) for one in each)) for name in lost},
        alone={name: round(fmean(one.alone.get(name, 0) for one in each)) for name in lost},
        seeds=len(each),
        planned=planned,
    )


# Trajectories of an environment: turns that answers took, and what their tools came to.


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """Answers that took ``turns`` turns: their share, the share of them that is right.

    ``within`` is Pass@k where only answers that took no more turns can be right.
    """

    turns: int
    share: float
    right: float
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """Calls of a tool for each answer, and the share of them that failed; '' for no tool."""

    tool: str
    calls: float
    failed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFacts:
    """Turns and tools of a run's samples on a set."""

    key: str
    label: str
    set_name: str
    k: int
    turns: Sequence[TurnRow]
    tools: Sequence[ToolRow]


def turn_facts(runs: Sequence[ReportRun]) -> list[TurnFacts]:
    """Of every run whose answers are trajectories, and every set; greedy answers are left out."""
    found = []
    for run in runs:
        recipe = run.results.recipe
        if run.samples is None or recipe is None or recipe.environment.path is None:
            continue
        by_set: dict[str, list[Mapping[str, Any]]] = {}
        for row in run.samples.to_pylist():
            if row["sample_index"] >= 0:
                by_set.setdefault(row["set"], []).append(row)
        found += [_turn_facts(run, name, rows) for name, rows in by_set.items()]
    return found


def _turn_facts(run: ReportRun, name: str, rows: Sequence[Mapping[str, Any]]) -> TurnFacts:
    taken: list[int] = []
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for row in rows:
        turns = read_turns(row["text"])
        taken.append(sum(not turn.by for turn in turns))
        results = [turn for turn in turns if turn.by not in ("", "reset")]
        calls.update(turn.by for turn in results)
        failed.update(turn.by for turn in results if ToolResult(turn.by, turn.text).is_error)
    samples = run.scores[name].samples
    right = [row["outcome"] == Outcome.CORRECT for row in rows]
    each: dict[str, Counter[int]] = {row["problem_id"]: Counter() for row in rows}
    for row, turns_taken, is_right in zip(rows, taken, right, strict=True):
        each[row["problem_id"]][turns_taken] += is_right
    return TurnFacts(
        key=run.key,
        label=run.label,
        set_name=name,
        k=samples,
        turns=[
            TurnRow(
                turns=most,
                share=taken.count(most) / len(rows),
                right=fmean(ok for ok, turns in zip(right, taken, strict=True) if turns == most),
                within=fmean(
                    pass_at_k(samples, sum(n for t, n in of.items() if t <= most), samples)
                    for of in each.values()
                ),
            )
            for most in sorted(set(taken))
        ],
        tools=[
            ToolRow(tool=tool, calls=calls[tool] / len(rows), failed=failed[tool] / calls[tool])
            for tool in sorted(calls)
        ],
    )
