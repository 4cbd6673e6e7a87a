"""The picture of a study's fronts: mean@1 against Pass@k, from the base model on."""

from collections.abc import Iterator
from statistics import fmean

from dph.results.charts.panels import PERCENT, Spec, curves, panel, picture, quantity, run_channels
from dph.results.charts.picture import drawn
from dph.results.vocabulary import looks, set_title
from lab.study.plan import front_points
from lab.study.report import Report
from lab.study.settings import BASE


def fronts_svg(report: Report) -> str:
    """A panel for each set of the first world: means over the seeds on which all runs were made.

    A line leads from the base model over the checkpoints of one run, or over a mixture of weights
    to the trained end. A method has a line for each of its runs (``[fronts]`` of the rule).
    """
    world = report.results.worlds[0]
    metric = next(name for name in report.metrics(world) if name.startswith("front@"))
    k = int(metric.removeprefix("front@"))
    there = set(report.results.labels(world))
    fronts = report.study.rule.fronts.items()
    runs = {arm: (arm, *others) for arm, others in fronts if there.issuperset((arm, *others))}
    made = [report.results.rows(world, label) for of in runs.values() for label in (BASE, *of)]
    seeds = sorted(set.intersection(*map(set, made)))

    def means(label: str, of: str) -> list[tuple[float, float]]:
        """By checkpoint; a run's own result comes first."""
        rows = [report.results.rows(world, label)[seed] for seed in seeds]
        points = zip(*(front_points([row], k, of) for row in rows), strict=True)
        return [(fmean(x for x, _ in at), fmean(y for _, y in at)) for at in points]

    def rows(of: str) -> Iterator[Spec]:
        base = means(BASE, of)
        for arm, labels in runs.items():
            for label in labels:
                result, *others = means(label, of)
                between = report.results.rows(world, label)[seeds[0]].interpolate is not None
                rest = [result, *others] if between else [*others, result]
                for place, (x, y) in enumerate([*base, *rest]):
                    yield {"run": arm, "line": label, "place": place, "x": x, "value": y}

    axis = {"format": PERCENT, "tickCount": 5}
    x, y = (
        quantity(field, title, scale={"zero": False}, axis=axis)
        for field, title in (("x", "mean@1"), ("value", f"Pass@{k}"))
    )
    panels = []
    for of in report.sets(world):
        layers = curves(run_channels(looks(runs)), x, y, banded=False)
        for layer in layers:
            layer["encoding"] |= {"detail": {"field": "line"}, "order": {"field": "place"}}
            layer.pop("transform", None)
        note = f"Means over {len(seeds)} seeds; lines begin at the base model"
        panels.append(panel(set_title(of), note, layers, data={"values": list(rows(of))}))
    return drawn(picture(panels), "svg").decode()
