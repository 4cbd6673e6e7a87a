"""The quickstart as a whole, with everything heavy replaced by something small."""

import json
import shutil

import pytest

from dph.errors import DataError, SettingsError
from dph.runs.progress import Silent
from lab.quickstart.recipes import Size
from lab.quickstart.run import quickstart
from lab.quickstart.stages import StageClock
from lab.worlds.sql.kind import SQLWorldSizes

SMALL = Size(
    world=SQLWorldSizes(train=12, in_domain=3, cross_domain=3, arithmetic=3),
    base_steps=1,
    steps=1,
    problems_per_step=2,
    samples=16,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("quickstart")
    summary = quickstart(directory, methods=["grpo"], seed=3, progress=Silent(), size=SMALL)
    return directory, summary


def test_the_summary_has_the_promised_form(finished):
    directory, summary = finished
    assert json.loads((directory / "summary.json").read_text()) == summary
    assert list(summary) == ["schema", "seed", "base", "methods", "cost", "seconds"]
    assert (summary["schema"], summary["seed"]) == (3, 3)
    assert list(summary["methods"]) == ["grpo"]
    for model in (summary["base"], summary["methods"]["grpo"]):
        assert list(model["sets"]) == ["in_domain", "cross_domain", "arithmetic"]
        for scores in model["sets"].values():
            assert set(scores) == {
                "problems",
                "greedy",
                "mean",
                "pass_at_k",
                "ci95",
                "keep",
                "explore",
                "keep_null",
                "explore_null",
                "styles",
                "effective_styles",
                "cut_off",
            }
    assert summary["seconds"]["total"] > 0
    cost = summary["cost"]["grpo"]
    assert cost["answers"] > 0
    assert cost["not_timed"] == []


def test_another_method_is_added_to_what_is_there(finished):
    directory, first = finished
    weights = next((directory / "grpo" / "checkpoints").glob("*/model.safetensors"))
    before = weights.stat().st_mtime_ns
    summary = quickstart(
        directory, methods=["grpo", "rkl@0.5"], seed=3, progress=Silent(), size=SMALL
    )
    assert summary["methods"]["grpo"] == first["methods"]["grpo"]
    assert list(summary["methods"]) == ["grpo", "rkl@0.5"]
    assert (directory / "rkl_0.5" / "evaluation.json").is_file()
    assert weights.stat().st_mtime_ns == before


def test_side_by_side_a_method_has_the_scores_that_it_has_alone(finished, tmp_path):
    _, alone = finished
    summary = quickstart(
        tmp_path, methods=["grpo", "rkl"], seed=3, progress=Silent(), size=SMALL, jobs=2
    )
    assert list(summary["methods"]) == ["grpo", "rkl"]
    assert summary["base"] == alone["base"]
    assert summary["methods"]["grpo"] == alone["methods"]["grpo"]


@pytest.mark.slow
def test_side_by_side_it_finds_the_same_as_one_after_the_other(tmp_path):
    summaries = [
        quickstart(
            tmp_path / str(jobs),
            methods=["grpo", "rkl"],
            seed=3,
            progress=Silent(),
            size=SMALL,
            jobs=jobs,
        )
        for jobs in (1, 2)
    ]
    assert [*summaries[0]["seconds"]][-1] == "total"
    assert set(summaries[0].pop("seconds")) == set(summaries[1].pop("seconds"))
    for cost in (cost for summary in summaries for cost in summary["cost"].values()):
        assert cost.pop("seconds") > 0
    assert summaries[0] == summaries[1]
    assert not list((tmp_path / "2").glob(".*.log"))


@pytest.mark.slow
def test_methods_that_share_a_store_wait_for_it(tmp_path):
    methods = ["consensus@1", "consensus@2"]
    summary = quickstart(tmp_path, methods=methods, seed=3, progress=Silent(), size=SMALL, jobs=2)
    assert list(summary["methods"]) == methods
    assert len(list((tmp_path / "stores").glob("*/manifest.json"))) == 1


@pytest.mark.slow
def test_what_fails_in_a_child_is_told_in_one_line_and_goes_on_next_time(tmp_path, finished):
    directory, _ = finished
    broken = tmp_path / "broken"
    shutil.copytree(directory, broken)
    shutil.rmtree(broken / "grpo")
    (broken / "grpo").write_text("in the way")
    with pytest.raises(DataError, match=r"^train grpo: .*grpo") as caught:
        quickstart(broken, methods=["grpo", "rkl"], seed=3, progress=Silent(), size=SMALL, jobs=2)
    assert "\n" not in str(caught.value)
    (broken / "grpo").unlink()
    again = quickstart(
        broken, methods=["grpo", "rkl"], seed=3, progress=Silent(), size=SMALL, jobs=2
    )
    assert list(again["methods"]) == ["grpo", "rkl"]


def test_another_seed_into_the_same_directory_is_refused(finished):
    directory, _ = finished
    with pytest.raises(DataError, match="seed"):
        quickstart(directory, methods=["grpo"], seed=4, progress=Silent(), size=SMALL)


@pytest.mark.parametrize("methods", [[], ["grpo", "grpo"], ["nothing"]])
def test_methods_that_make_no_sense_leave_nothing(tmp_path, methods):
    with pytest.raises(SettingsError):
        quickstart(tmp_path / "out", methods=methods, seed=0, progress=Silent(), size=SMALL)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("ucpo@1.5", r"^ucpo@1\.5: objective\.advantage\.tau: .* got 1\.5"),
        ("pass_at_k@8", r"^pass_at_k@8: objective\.advantage\.k=8 .* needs at least 9 samples"),
        ("ttrl@99", r"^ttrl@99: self_consistency\.problems_per_step=99 "),
    ],
)
def test_a_strength_out_of_range_is_refused_before_anything_is_built(tmp_path, method, message):
    with pytest.raises(SettingsError, match=message):
        quickstart(tmp_path / "q", methods=["grpo", method], seed=0, progress=Silent(), size=SMALL)
    assert not (tmp_path / "q").exists()


def test_the_clock_adds_up_over_starts(tmp_path):
    for _ in range(2):
        with StageClock(tmp_path / "seconds.json").stage("a"):
            pass
    clock = StageClock(tmp_path / "seconds.json")
    with clock.stage("b"):
        pass
    seconds = clock.seconds()
    assert set(seconds) == {"a", "b", "total"}
    assert seconds["total"] == pytest.approx(seconds["a"] + seconds["b"], abs=0.01)


def test_the_total_is_the_time_that_passed_after_what_was_counted_before(tmp_path):
    path = tmp_path / "seconds.json"
    path.write_text(json.dumps({"a": 5.0, "b": 2.0, "total": 7.0}))
    clock = StageClock(path)
    for _ in range(2):
        with clock.stage("total"), clock.stage("c"):
            pass
    seconds = clock.seconds()
    assert list(seconds) == ["a", "b", "c", "total"]
    assert seconds["total"] == pytest.approx(7.0 + seconds["c"], abs=0.1)


def test_the_clock_counts_a_stage_that_failed(tmp_path):
    clock = StageClock(tmp_path / "seconds.json")
    with pytest.raises(KeyError), clock.stage("a"):
        raise KeyError
    assert "a" in clock.seconds()
