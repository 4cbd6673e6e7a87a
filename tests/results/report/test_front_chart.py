"""Where the names of a front chart stand, and what its points look like."""

import itertools
import random

from dph.results.charts.palette import looks
from dph.results.report.charts import front_chart, label_box, label_places
from dph.runs.evaluate.comparison import ComparisonRow


def test_no_name_lies_on_another_or_on_a_point():
    for seed in range(20):
        drawn = random.Random(seed)
        points = [(drawn.uniform(10, 280), drawn.uniform(10, 180)) for _ in range(8)]
        points += points[:3]  # of runs that scored the same
        letters = [drawn.randint(4, 14) for _ in points]
        places = label_places(points, letters)
        boxes = [
            label_box(point, count, *place)
            for point, count, place in zip(points, letters, places, strict=True)
        ]
        assert not any(overlap(a, b) for a, b in itertools.combinations(boxes, 2))
        for box in boxes:
            assert not any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_runs_are_told_apart_by_the_palettes_markers():
    names = ["base", "dph_broad", "dph_f", "grpo"]
    rows = [
        ComparisonRow(
            set_name="dev", metric=metric, run=name, value=0.5, lo=0.4, hi=0.6, difference=None
        )
        for name in names
        for metric in ("greedy", "pass_at_8")
    ]
    chart = front_chart("dev", rows, 8, {name: name for name in names}, looks(names))
    shapes = next(
        layer["encoding"]["shape"]["scale"]
        for layer in chart.spec["layer"]
        if "shape" in layer["encoding"]
    )
    assert shapes["domain"] == names
    assert len(set(shapes["range"])) == 4
