"""Charts of sets: what their titles state, what their legends name, and what points look like."""

from dph.results.report.charts import ComparedSet, front_chart
from dph.results.vocabulary import looks
from results.charts.synthetic import comparison_row


def test_runs_are_told_apart_by_the_palettes_markers_and_the_legend_names_those_told():
    names = ["base", "dph_js", "dph_f", "grpo"]
    rows = [comparison_row(of, name) for name in names for of in ("greedy", "pass_at_8")]
    labels = {name: name.upper() for name in names}
    of = ComparedSet(name="dev", rows=rows, labels=labels, told=names)
    chart = front_chart(of, looks(names), shown=names[:3])
    shape = chart.spec["layer"][-1]["encoding"]["shape"]
    assert shape["scale"]["domain"] == chart.columns["label"] == list(labels.values())
    assert len(set(shape["scale"]["range"])) == 4
    assert shape["legend"]["values"] == ["BASE", "DPH_JS", "DPH_F"]


LABELS = {"r0": "Base model", "r1": "GRPO", "r2": "DPH-F", "r3": "DAPO"}


def rows_of(**moved):
    """Rows of first try and Pass@8: for each run the middles of the two differences, +-0.1."""
    found = []
    for run in ("r0", *moved):
        for metric, middle in zip(("greedy", "pass_at_8"), moved.get(run, (0, 0)), strict=True):
            apart = () if run == "r0" else (middle, middle - 0.1, middle + 0.1)
            found.append(comparison_row(metric, run, *apart))
    return found


def compared(name, told=LABELS, **moved):
    return ComparedSet(name=name, rows=rows_of(**moved), labels=LABELS, told=list(told))


def test_a_title_says_who_is_above_and_below_and_a_tie_is_a_tie():
    def title(**moved):
        return compared("in_domain", **moved).reach_finding()

    assert title(r1=(0, -0.2), r2=(0, 0.2), r3=(0, 0.05)) == (
        "In domain, Pass@8: GRPO below Base model, DPH-F above it"
    )
    assert title(r1=(0, 0.2)) == "In domain, Pass@8: GRPO above Base model"
    assert title(r1=(0, 0.1)) == "In domain, Pass@8: GRPO cannot be distinguished from Base model"
    assert title(r1=(0, 0), r2=(0, 0.05)).endswith("no run can be distinguished from Base model")
    assert title(r1=(0, -0.2), r2=(0, -0.2), r3=(0, -0.2)).endswith("3 of 3 runs below Base model")
    assert title() == "In domain, Pass@8"


def test_a_title_says_who_paid_for_better_first_answers():
    moved = {"r1": (0.3, -0.2), "r2": (0.3, 0.0), "r3": (0.0, -0.2)}
    assert compared("dev", **moved).traded_finding(8) == (
        "Dev \N{EN DASH} GRPO: better first answers for fewer problems within reach; "
        "DPH-F: better first answers, no reach lost beyond chance; "
        "DAPO: fewer problems within reach"
    )
    tie = compared("dev", r1=(0, 0), r2=(0, 0)).traded_finding(8)
    assert tie == "Dev \N{EN DASH} no run can be distinguished from Base model"
    alone = compared("dev", ["r0", "r3"], **moved).traded_finding(8)
    assert alone == "Dev \N{EN DASH} DAPO: fewer problems within reach"
