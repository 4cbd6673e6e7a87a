"""The tables of a study: choices, scores, differences, and the rule's tests."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dph.results.charts.text_table import UNKNOWN, TextTable, marked
from dph.results.over_seeds import SeedMean
from dph.results.vocabulary import set_label
from lab.study.candidates import Candidate
from lab.study.report import (
    Report,
    estimate_cell,
    metric_column,
    number_cell,
    points,
    score_rows,
    titles,
)
from lab.study.results import RuleComparison, compared, mean_of
from lab.study.rows import RunRow
from lab.study.settings import BASE

POWER_SEEDS = (4, 10)
_TIES = {
    "stronger": "the larger strength, the smaller weight, the smaller rate",
    "weaker": "the smaller strength, the larger weight, the larger rate",
}
_LEVEL = 0.05


def all_tables(report: Report) -> Iterator[TextTable]:
    """Those of which something is known, in the order in which they are printed and written."""
    yield from study_tables(report)
    if (found := power_table(report)).rows:
        yield found
    yield from forgetting_tables(report)
    yield from tried_tables(report)


def study_tables(report: Report) -> Iterator[TextTable]:
    """Every table of which something is known."""
    yield choices_table(report)
    for world in report.results.worlds:
        yield scores_table(report, world, report.results.labels(world))
        if report.study.file.study.shown:
            yield shown_scores_table(report, world)
        for label in dict.fromkeys((report.reference, *report.study.file.study.beside, BASE)):
            if report.results.rows(world, label):
                yield differences_table(report, world, label)
    if tested := compared(report.results, report.study.rule):
        yield comparisons_table(report, tested)


def choices_table(report: Report) -> TextTable:
    """Everything that was tried, with its score on the development seeds; the choice in bold."""
    rows = []
    rule = report.study.rule.choose
    for (world, label), choice in report.plan.choices.items():
        tied = choice.tied(rule.tie)
        for candidate, score in zip(choice.tried, choice.scores, strict=True):
            cells = (
                number_cell(candidate.strength),
                number_cell(candidate.learning_rate),
                number_cell(candidate.interpolate),
                UNKNOWN if score is None else f"{100 * score:.1f}",
                "tie" if candidate in tied else "",
            )
            chosen = candidate == choice.chosen
            rows.append((world, label, *(marked(c) if chosen and c else c for c in cells)))
    rows.sort(key=lambda row: (row[0], report.study.labels.index(row[1])))
    seeds = ", ".join(map(str, report.study.file.study.seeds_development)) or "none"
    return TextTable(
        name="choices",
        title="Candidates and choices",
        columns=("world", "method", "strength", "learning rate", "weight", "score", "tie"),
        rows=tuple(rows),
        note=report.note(
            f"Mean {rule.metric} in per cent over development seeds ({seeds}); the choice is in "
            f"bold. A tie is less than {100 * rule.tie:g} points below the best; of those the rule "
            f"takes the {rule.tie_goes_to}: {_TIES[rule.tie_goes_to]}."
        ),
        left=2,
    )


def shown_scores_table(report: Report, world: str) -> TextTable:
    """The same of the methods that the study shows."""
    table = scores_table(report, world, report.shown(world))
    return replace(table, name=f"short-{world}")


def scores_table(report: Report, world: str, labels: Sequence[str]) -> TextTable:
    """Means of these methods over the report seeds."""
    columns = report.columns(world)
    rows = [
        (*row, _drawn(report, world, row[0]), str(report.results.seeds(world, row[0])))
        for row in score_rows(report, world, labels, columns)
    ]
    return TextTable(
        name=f"scores-{world}",
        title=f"Scores on {world}",
        columns=("method", *titles(columns), "answers drawn", "seeds"),
        rows=tuple(rows),
        note=report.note(
            "In per cent, styles as their effective number; means over the report seeds with 95% "
            "t-intervals. Answers drawn: in training and for what was stored before."
            + _ties(report, world, labels)
        ),
    )


def _ties(report: Report, world: str, labels: Sequence[str]) -> str:
    """Choices that the tie-break made for these methods."""
    tie = report.study.rule.choose.tie
    found = [
        f"{label} ({' or '.join(_words(candidate, tied) for candidate in tied)})"
        for label in labels
        if (choice := report.plan.choices.get((world, label))) and (tied := choice.tied(tie))
    ]
    return f" Chosen by the tie-break: {', '.join(found)}." if found else ""


def _words(candidate: Candidate, among: Sequence[Candidate]) -> str:
    """Differences of a candidate from the others of a tie."""
    names = {"strength": "strength", "learning_rate": "rate", "interpolate": "weight"}
    values = [
        f"{word} {getattr(candidate, name):g}"
        for name, word in names.items()
        if len({getattr(one, name) for one in among}) > 1
    ]
    return ", ".join(values)


def differences_table(
    report: Report, world: str, against: str, labels: Sequence[str] | None = None
) -> TextTable:
    """Every method (or those of ``labels``) minus one, paired by seed."""
    columns, difference = report.columns(world), report.results.difference
    rows = [
        (label, *(points(difference(world, (label, against), m, [of]), m) for of, m in columns))
        for label in (report.results.labels(world) if labels is None else labels)
        if label != against
    ]
    file_name = re.sub(r"[^\w.-]", "_", against)
    return TextTable(
        name=f"differences-{world}-{file_name}",
        title=f"Minus {against} of the same seed, on {world}",
        columns=("method", *titles(columns)),
        rows=tuple(rows),
        note=report.note("In percentage points, with 95% t-intervals over seeds; not corrected."),
    )


def comparisons_table(
    report: Report, tested: Sequence[RuleComparison], world: str | None = None
) -> TextTable:
    """The rule's tests, or those on one world."""
    rows = []
    for found in (one for one in tested if world in (None, one.world)):
        asked, difference = found.comparison, found.difference
        adjusted = _p_value(found.adjusted)
        significant = found.adjusted is not None and found.adjusted <= _LEVEL
        rows.append(
            (
                found.world,
                f"{asked.a} - {asked.b}",
                f"{asked.metric}, {' and '.join(map(set_label, asked.sets))}",
                asked.alternative,
                points(difference, asked.metric),
                _p_value(difference.p_value),
                marked(adjusted) if significant else adjusted,
                str(difference.seeds),
            )
        )
    corrected = "Holm's correction" if report.study.rule.correction == "holm" else "no correction"
    return TextTable(
        name="comparisons",
        title="Tests of the rule",
        columns=("world", "difference", "of", "alternative", "points", "p", "adjusted p", "seeds"),
        rows=tuple(rows),
        note=report.note(
            f"Paired t-tests over report seeds, {corrected} over all {len(tested)}; bold: at most "
            f"{_LEVEL}."
        ),
        left=4,
    )


def _p_value(p: float | None) -> str:
    if p is None:
        return UNKNOWN
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def _drawn(report: Report, world: str, label: str) -> str:
    rows = report.results.rows(world, label).values()
    drawn = [row.rollouts + row.stored for row in rows]
    return f"{sum(drawn) / len(drawn):.0f}" if drawn else UNKNOWN


# What methods kept, what they gained, and what became of skills that no method trained.
#
# The paper's Table 2 (other tasks) and its rates of problems kept and gained, on a study's
# worlds.


def forgetting_tables(report: Report) -> Iterator[TextTable]:
    """Those of which something is known, for each world."""
    for world in report.results.worlds:
        if any(
            report.results.estimate(world, label, "keep", [of])
            for label in report.results.labels(world)
            for of in report.sets(world)
        ):
            yield retention_table(report, world)
        if set(report.results.sets(world)) - set(report.sets(world)):
            yield elsewhere_table(report, world)


def retention_table(report: Report, world: str) -> TextTable:
    """The shares of problems that were kept and gained against the base model."""
    columns = [(of, metric) for of in report.sets(world) for metric in ("keep", "explore")]
    return TextTable(
        name=f"retention-{world}",
        title=f"Kept and gained on {world}",
        columns=("method", *titles(columns)),
        rows=score_rows(report, world, report.results.labels(world), columns),
        note=report.note(
            "In per cent, with 95% t-intervals over report seeds. keep: of the problems that the "
            "base model solved with one of its first samples, those that the method solves with "
            "one of as many; explore: the same of those that it did not solve. The base model's "
            "row compares two draws of it."
        ),
    )


def elsewhere_table(report: Report, world: str) -> TextTable:
    """Scores on the sets that the rule does not choose by: what no method was trained on."""
    others = [of for of in report.results.sets(world) if of not in report.sets(world)]
    metrics = [metric for metric in report.metrics(world) if metric != "styles"]
    columns = [(of, metric) for of in others for metric in metrics]
    return TextTable(
        name=f"elsewhere-{world}",
        title=f"Tasks without RL training, on {world}",
        columns=("method", *titles(columns)),
        rows=score_rows(report, world, report.results.labels(world), columns),
        note=report.note("In per cent, with 95% t-intervals over report seeds."),
    )


# What was tried of each method, score by score, on the development seeds.


def tried_tables(report: Report) -> Iterator[TextTable]:
    """A table for each world: means over the development seeds, a row for each candidate."""
    for world in report.results.worlds:
        columns = report.columns(world)
        found = [
            (
                label,
                *(number_cell(value or None) for value in key),  # what has no grid is 0
                *(_cell(runs, metric, of) for of, metric in columns),
            )
            for label in report.study.labels
            for key, runs in report.results.tried(world, label).items()
        ]
        if found:
            yield TextTable(
                name=f"tried-{world}",
                title=f"Candidates on {world}, on development seeds",
                columns=("method", "strength", "weight", "learning rate", *titles(columns)),
                rows=tuple(found),
                note=report.note("Means in per cent, styles as their effective number."),
            )


def _cell(rows: Sequence[RunRow], metric: str, of: str) -> str:
    mean = mean_of(rows, metric, [of])
    return estimate_cell(None if mean is None else SeedMean(mean, None, len(rows)), metric)


# What a study's worlds can decide: how far its reference is from the base model.


def power_table(report: Report) -> TextTable:
    """The distance in standard errors at 4 and at 10 seeds, at each length of the reference."""
    rows = [
        row
        for world in report.results.worlds
        for of, metric in report.columns(world)
        if metric != "styles" and (row := _power_row(report, world, report.reference, of, metric))
    ]
    at = [f"SE at {seeds}" for seeds in POWER_SEEDS]
    over = [f"differences in SE at {seeds}" for seeds in POWER_SEEDS]
    return TextTable(
        name="power",
        title=f"Statistical power of the worlds: {report.reference} minus base",
        columns=("world", "method", "set", "of", "points", "SD between seeds", *at, *over, "seeds"),
        rows=tuple(rows),
        note=report.note(
            "Percentage points, paired by report seed; SE: standard error of the mean difference "
            "over that number of seeds."
        ),
        left=4,
    )


def _power_row(
    report: Report, world: str, label: str, of: str, metric: str
) -> tuple[str, ...] | None:
    found = report.results.difference(world, (label, BASE), metric, [of])
    if found is None or found.standard_error is None:
        return None
    one, *errors = [found.error_at(seeds) or 0.0 for seeds in (1, *POWER_SEEDS)]
    return (
        world,
        label,
        set_label(of),
        metric_column(metric),
        points(found, metric, interval=False),
        f"{100 * one:.1f}",
        *(f"{100 * error:.2f}" for error in errors),
        *(f"{abs(found.mean) / error:.1f}" if error > 0 else UNKNOWN for error in errors),
        str(found.seeds),
    )
