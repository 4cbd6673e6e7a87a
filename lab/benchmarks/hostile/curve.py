"""What a vote adds, by the correlation of the annotators' gaps: numbers, table and picture.

A pair of the rule is consolidation after an anchor and the anchor alone; its difference, paired by
seed, is what learning from the vote added. Of the vote itself a row says how often the consensus of
the answers that were learnt from is right, how many prompts have one, and how many answers are
right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dph.results.charts.panels import panel_grid, title
from dph.results.charts.text_table import UNKNOWN, TextTable
from dph.results.over_seeds import SeedMean, mean_over_seeds
from lab.study.report import metric_column
from lab.study.results import Results
from lab.study.rows import OF_VOTES
from lab.study.settings import Study
from lab.worlds.sql.kind import CORRELATIONS

STORE = "stores.after"
"""Of the answers that consolidation learns from."""
METRICS = ("greedy", "mean", "pass@16")
DECIDES = "mean"
"""The metric whose interval says whether a vote helps."""
_COLOURS = {"greedy": "#0072B2", "mean": "#D55E00", "pass@16": "#009E73"}
_VOTES = {
    "consensus": ("#CC79A7", "consensus right"),
    "answers_right": ("#4D4D4D", "answers right"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """With the vote and without it, on the sets whose mean is compared."""

    voted: str
    alone: str
    sets: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.voted}, minus {self.alone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One pair at one correlation; gains and votes are fractions, by metric.

    ``by_seed`` are the single gains of ``DECIDES``.
    """

    pair: Pair
    correlation: float
    gains: dict[str, SeedMean]
    votes: dict[str, SeedMean]
    by_seed: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """Whether the vote helps or harms: the interval of the gain is on one side of 0."""
        gain = self.gains[DECIDES]
        if gain.half is None:
            return "unknown"
        if gain.mean - gain.half > 0:
            return "helps"
        return "harms" if gain.mean + gain.half < 0 else "neither"


def pairs_of(study: Study) -> tuple[Pair, ...]:
    """The pairs that the rule compares, in its order, each once."""
    return tuple(dict.fromkeys(Pair(voted=c.a, alone=c.b, sets=c.sets) for c in study.rule.compare))


def points_of(study: Study, results: Results) -> tuple[Point, ...]:
    """A point for each pair and each world of both of whose arms a seed is known."""
    correlations = {
        world.name or world.task: CORRELATIONS[world.task]
        for world in study.file.worlds
        if world.task in CORRELATIONS
    }
    return tuple(
        point
        for pair in pairs_of(study)
        for world, correlation in sorted(correlations.items(), key=lambda item: item[1])
        if (point := _point(results, pair, world, correlation)) is not None
    )


def _point(results: Results, pair: Pair, world: str, correlation: float) -> Point | None:
    gains = {metric: _gains(results, pair, world, metric) for metric in METRICS}
    if not gains[DECIDES]:
        return None
    votes = {metric: _votes(results, pair, world, metric) for metric in OF_VOTES}
    return Point(
        pair=pair,
        correlation=correlation,
        gains={metric: mean_over_seeds(values) for metric, values in gains.items() if values},
        votes={metric: mean_over_seeds(values) for metric, values in votes.items() if values},
        by_seed=tuple(gains[DECIDES]),
    )


def _gains(results: Results, pair: Pair, world: str, metric: str) -> list[float]:
    """By seed, with the vote minus without it."""
    voted, alone = (
        results.values(world, label, metric, pair.sets) for label in (pair.voted, pair.alone)
    )
    return [voted[seed] - alone[seed] for seed in sorted(voted.keys() & alone.keys())]


def _votes(results: Results, pair: Pair, world: str, metric: str) -> list[float]:
    """By seed, what is known of the vote that the arm learnt from."""
    return [
        score.value
        for row in results.rows(world, pair.voted).values()
        for score in row.scores
        if (score.set, score.metric) == (STORE, metric) and score.value is not None
    ]


def curve_tables(points: Sequence[Point]) -> Iterator[TextTable]:
    """A table for each pair and in it a row for each correlation, in per cent."""
    for pair in dict.fromkeys(point.pair for point in points):
        yield TextTable(
            name="hostile",
            title=str(pair),
            columns=(
                *("correlation", "the vote", "seeds"),
                *map(metric_column, METRICS),
                *("consensus right", "with a consensus", "answers right"),
            ),
            rows=tuple(
                (
                    *(f"{point.correlation:g}", point.verdict, str(len(point.by_seed))),
                    *(_gain(point.gains.get(metric)) for metric in METRICS),
                    *(_share(point.votes.get(metric)) for metric in OF_VOTES),
                )
                for point in points
                if point.pair == pair
            ),
            note="",
            left=2,
        )


def curve_note(rule: str) -> str:
    """What the numbers of all tables are."""
    metrics = ", ".join(map(metric_column, METRICS))
    return (
        f"{rule} {metrics}: what the vote adds in percentage points, on the mean of the test sets, "
        f"paired by seed, with 95% t-intervals over seeds. The vote helps where the interval of "
        f"{metric_column(DECIDES)} is above 0, and harms where it is below."
    )


def sentences(points: Sequence[Point]) -> Iterator[str]:
    """For each pair where the vote helps, where it does neither and where it harms."""
    for pair in dict.fromkeys(point.pair for point in points):
        own = [point for point in points if point.pair == pair]
        told = [
            f"{verdict} at {', '.join(f'{p.correlation:g}' for p in own if p.verdict == verdict)}"
            for verdict in ("helps", "neither", "harms", "unknown")
            if any(point.verdict == verdict for point in own)
        ]
        yield f"{pair}: {'; '.join(told)}."


def curve_figure(points: Sequence[Point]) -> Figure:
    """Gains above, votes below, a column for each pair."""
    pairs = list(dict.fromkeys(point.pair for point in points))
    own = [[point for point in points if point.pair == pair] for pair in pairs]
    return panel_grid(
        [
            [lambda axes, found=found: _draw_gains(axes, found) for found in own],  # type: ignore[misc]
            [lambda axes, found=found: _draw_votes(axes, found) for found in own],  # type: ignore[misc]
        ]
    )


def _draw_gains(axes: Axes, points: Sequence[Point]) -> None:
    for shift, metric in zip((-0.012, 0.0, 0.012), METRICS, strict=True):
        known = [(p.correlation + shift, p.gains[metric]) for p in points if metric in p.gains]
        _draw_line(axes, known, _COLOURS[metric], metric_column(metric))
    for point in points:
        places = [point.correlation] * len(point.by_seed)
        points_of_seeds = [100 * gain for gain in point.by_seed]
        axes.scatter(places, points_of_seeds, s=8, color=_COLOURS[DECIDES], alpha=0.5, zorder=1)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_ylabel("gain, percentage points")
    axes.set_xlabel("correlation of the annotators' gaps")
    title(
        axes,
        str(points[0].pair.voted),
        f"minus {points[0].pair.alone}; dots: {metric_column(DECIDES)}, by seed",
    )


def _draw_votes(axes: Axes, points: Sequence[Point]) -> None:
    for metric, (colour, label) in _VOTES.items():
        known = [(p.correlation, p.votes[metric]) for p in points if metric in p.votes]
        _draw_line(axes, known, colour, label)
    axes.set_ylabel("per cent")
    axes.set_xlabel("correlation of the annotators' gaps")
    title(axes, "The vote", "on the prompts that were learnt from; bars: 95% over seeds")


def _draw_line(
    axes: Axes, known: Sequence[tuple[float, SeedMean]], colour: str, label: str
) -> None:
    axes.errorbar(
        [place for place, _ in known],
        [100 * found.mean for _, found in known],
        yerr=[100 * (found.half or 0.0) for _, found in known],
        color=colour,
        marker="o",
        markersize=4,
        capsize=3,
        label=label,
    )


def _gain(found: SeedMean | None) -> str:
    return UNKNOWN if found is None else found.times(100).signed()


def _share(found: SeedMean | None) -> str:
    return UNKNOWN if found is None else str(found.times(100))
