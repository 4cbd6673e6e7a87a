"""The tables of a study: choices, scores, differences, and the rule's tests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dph.lab.study.candidates import Candidate
from dph.lab.study.plan import Plan
from dph.lab.study.results import Results, RuleComparison, SeedMean, compared
from dph.lab.study.rule_lock import RuleLock
from dph.lab.study.settings import BASE, ComparisonSettings, Study
from dph.results.charts.text_table import TextTable, marked

UNKNOWN = "-"
_TIES = {
    "stronger": "the larger strength, the smaller weight, the smaller rate",
    "weaker": "the smaller strength, the larger weight, the larger rate",
}
_LEVEL = 0.05


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
        """The methods that pictures and the short table show: ``study.shown``, and the base."""
        there = self.results.labels(world)
        named = self.study.file.study.shown
        return tuple(label for label in there if not named or label in (BASE, *named))

    def sets(self, world: str) -> tuple[str, ...]:
        """The sets that tables show: those that the rule chooses by, where it names some."""
        there = self.results.sets(world)
        named = self.study.rule.choose.sets or there
        return tuple(of for of in there if of in named) or there

    def metrics(self, world: str) -> tuple[str, ...]:
        """greedy, mean, Pass@16 (or the largest k below it) and styles."""
        ks = self.results.ks(world)
        fitting = [k for k in ks if k <= 16] or ks
        return ("greedy", "mean", *([f"pass@{max(fitting)}"] if fitting else []), "styles")

    def columns(self, world: str) -> list[tuple[str, str]]:
        """Every set with every metric: what a table of scores has columns for."""
        return [(of, metric) for of in self.sets(world) for metric in self.metrics(world)]

    def note(self, text: str) -> str:
        """A table's note: what it shows, and the rule."""
        return f"{text} {self.lock.note[0].upper()}{self.lock.note[1:]}."


def study_tables(report: Report) -> Iterator[TextTable]:
    """Every table of which something is known."""
    yield choices_table(report)
    for world in report.results.worlds:
        yield scores_table(report, world)
        if report.study.file.study.shown:
            yield short_table(report, world)
        for label in dict.fromkeys((report.reference, *report.study.file.study.beside, BASE)):
            if report.results.rows(world, label):
                yield differences_table(report, world, label)
    tested = compared(report.results, report.study.rule)
    if tested:
        yield comparisons_table(report, tested)


def choices_table(report: Report) -> TextTable:
    """Everything that was tried, with its score on the development seeds; the choice in bold.

    Methods that ``if_best`` keeps from being reported are left out.
    """
    rows = []
    rule = report.study.rule.choose
    for (world, label), choice in report.plan.choices.items():
        if (world, label) in report.plan.left_out:
            continue
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
    order = report.study.labels
    rows.sort(key=lambda row: (row[0], order.index(row[1])))
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


def scores_table(report: Report, world: str) -> TextTable:
    """Every method's means over the report seeds."""
    return _scores(report, world, report.results.labels(world))


def short_table(report: Report, world: str) -> TextTable:
    """The same of the methods that the study shows."""
    table = _scores(report, world, report.shown(world))
    return replace(table, name=f"short-{world}")


def _scores(report: Report, world: str, labels: Sequence[str]) -> TextTable:
    results, columns = report.results, report.columns(world)
    rows = []
    for label in labels:
        cells = [
            estimate_cell(results.estimate(world, label, metric, [of]), metric)
            for of, metric in columns
        ]
        seeds = str(results.seeds(world, label))
        rows.append((label, *cells, _drawn(report, world, label), seeds))
    return TextTable(
        name=f"scores-{world}",
        title=f"Scores on {world}",
        columns=("method", *titles(columns), "answers drawn", "seeds"),
        rows=tuple(rows),
        note=report.note(
            "In per cent, styles as their effective number; means over the report seeds with 95% "
            "t-intervals. Answers drawn: in training and for the stores that it reads."
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
    columns, rows = report.columns(world), []
    for label in report.results.labels(world) if labels is None else labels:
        if label == against:
            continue
        cells = []
        for of, metric in columns:
            asked = ComparisonSettings(a=label, b=against, metric=metric, set=of)
            found = report.results.difference(world, asked)
            half = None if found is None or found.hi is None else found.hi - found.mean
            cells.append(UNKNOWN if found is None else points(found.mean, half, metric))
        rows.append((label, *cells))
    return TextTable(
        name=f"differences-{world}-{_file_name(against)}",
        title=f"Minus {against} of the same seed, on {world}",
        columns=("method", *titles(columns)),
        rows=tuple(rows),
        note=report.note("In percentage points, with 95% t-intervals over seeds; not corrected."),
    )


def comparisons_table(report: Report, tested: Sequence[RuleComparison]) -> TextTable:
    """The rule's tests."""
    rows = []
    for found in tested:
        asked, difference = found.comparison, found.difference
        half = None if difference.hi is None else difference.hi - difference.mean
        adjusted = _p_value(found.adjusted)
        significant = found.adjusted is not None and found.adjusted <= _LEVEL
        rows.append(
            (
                found.world,
                f"{asked.a} - {asked.b}",
                f"{asked.metric}, {' and '.join(map(set_title, asked.sets))}",
                asked.alternative,
                points(difference.mean, half, asked.metric),
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


def estimate_cell(estimate: SeedMean | None, metric: str) -> str:
    """A mean with its interval: in per cent, but for styles."""
    if estimate is None:
        return UNKNOWN
    scale = 1 if metric == "styles" else 100
    text = f"{scale * estimate.mean:.1f}"
    return text if estimate.half is None else f"{text} ± {scale * estimate.half:.1f}"


def points(mean: float, half: float | None, metric: str) -> str:
    """A difference with its interval: in percentage points, but for styles."""
    scale = 1 if metric == "styles" else 100
    text = f"{round(scale * mean, 1) + 0.0:+.1f}"
    return text if half is None else f"{text} ± {scale * half:.1f}"


def _p_value(p: float | None) -> str:
    if p is None:
        return UNKNOWN
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def number_cell(value: float | None) -> str:
    """A value of a grid; what is not set is unknown."""
    return UNKNOWN if value is None else f"{value:g}"


def _drawn(report: Report, world: str, label: str) -> str:
    rows = report.results.rows(world, label).values()
    drawn = [row.rollouts + row.stored for row in rows]
    return f"{sum(drawn) / len(drawn):.0f}" if drawn else UNKNOWN


def titles(columns: Sequence[tuple[str, str]]) -> list[str]:
    """Set and metric in the head of each column."""
    return [f"{set_title(of)}: {metric_title(metric)}" for of, metric in columns]


def set_title(name: str) -> str:
    """A set in the head of a column."""
    return name.replace("_", " ")


def metric_title(name: str) -> str:
    """A metric in the head of a column."""
    return "mean@1" if name == "mean" else name


def _file_name(label: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in label)
