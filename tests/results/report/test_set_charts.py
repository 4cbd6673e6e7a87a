"""Charts of sets: what their titles state, where names stand, and what points look like."""

import itertools
import random

from dph.results.charts.palette import looks
from dph.results.report.set_charts import (
    front_chart,
    label_box,
    label_places,
    reach_finding,
    traded_finding,
)
from results.charts.synthetic import comparison_row


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
    names = ["base", "dph_js", "dph_f", "grpo"]
    rows = [comparison_row(of, name) for name in names for of in ("greedy", "pass_at_8")]
    chart = front_chart("dev", rows, 8, {name: name for name in names}, looks(names), names)
    shapes = next(
        layer["encoding"]["shape"]["scale"]
        for layer in chart.spec["layer"]
        if "shape" in layer["encoding"]
    )
    assert shapes["domain"] == names
    assert len(set(shapes["range"])) == 4


LABELS = {"r0": "Base model", "r1": "GRPO", "r2": "DPH-F", "r3": "DAPO"}


def rows_of(**moved):
    """Rows of first try and Pass@8: for each run the middles of the two differences, +-0.1."""
    found = []
    for run in ("r0", *moved):
        for metric, middle in zip(("greedy", "pass_at_8"), moved.get(run, (0, 0)), strict=True):
            apart = () if run == "r0" else (middle, middle - 0.1, middle + 0.1)
            found.append(comparison_row(metric, run, *apart))
    return found


def test_a_title_says_who_is_above_and_below_and_a_tie_is_a_tie():
    def title(**moved):
        return reach_finding("in_domain", rows_of(**moved), LABELS, list(LABELS))

    assert title(r1=(0, -0.2), r2=(0, 0.2), r3=(0, 0.05)) == (
        "In domain, Pass@8: GRPO below Base model, DPH-F above it"
    )
    assert title(r1=(0, 0.2)) == "In domain, Pass@8: GRPO above Base model"
    assert title(r1=(0, 0.1)) == "In domain, Pass@8: GRPO cannot be told from Base model"
    assert title(r1=(0, 0), r2=(0, 0.05)).endswith("no run can be told from Base model")
    assert title(r1=(0, -0.2), r2=(0, -0.2), r3=(0, -0.2)).endswith("3 of 3 runs below Base model")
    assert title() == "In domain, Pass@8"


def test_a_title_says_who_paid_for_better_first_answers():
    rows = rows_of(r1=(0.3, -0.2), r2=(0.3, 0.0), r3=(0.0, -0.2))
    assert traded_finding("dev", rows, 8, LABELS, list(LABELS)) == (
        "Dev \N{EN DASH} GRPO: better first answers for fewer problems within reach; "
        "DPH-F: better first answers, no reach lost beyond chance; "
        "DAPO: fewer problems within reach"
    )
    tie = traded_finding("dev", rows_of(r1=(0, 0), r2=(0, 0)), 8, LABELS, list(LABELS))
    assert tie == "Dev \N{EN DASH} no run can be told from Base model"
    alone = traded_finding("dev", rows, 8, LABELS, ["r0", "r3"])  # of what is not told: nothing
    assert alone == "Dev \N{EN DASH} DAPO: fewer problems within reach"
