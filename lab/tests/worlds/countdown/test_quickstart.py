"""The quickstart on Countdown, with everything heavy replaced by something small."""

from dph.results.charts.tables import comparison_table
from dph.runs.progress import Silent
from dph.runs.train.tracking import read_metrics
from lab.quickstart.recipes import Size
from lab.quickstart.run import quickstart
from lab.worlds.countdown.kind import CountdownSizes

SMALL = Size(
    world=CountdownSizes(train=8, in_domain=3, cross_domain=3, unlabelled=1),
    base_steps=1,
    steps=1,
    problems_per_step=2,
    samples=16,
)


def test_it_runs_from_the_world_to_the_table(tmp_path):
    summary = quickstart(
        tmp_path, methods=["grpo"], seed=0, progress=Silent(), size=SMALL, task="countdown"
    )
    for model in (summary["base"], summary["methods"]["grpo"]):
        assert list(model["sets"]) == ["in_domain", "cross_domain"]
    sets = [str(cell) for cell in comparison_table(summary).columns[0].cells]
    assert [name for name in sets if name] == ["in domain", "cross domain"]
    assert len(read_metrics(tmp_path / "grpo" / "metrics.jsonl")) == 1
