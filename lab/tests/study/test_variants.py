import pytest

from dph.errors import SettingsError
from lab.study.candidates import Candidate, Variants
from lab.study.settings import BudgetSettings, MethodSettings
from lab.study.sites import Site
from lab.worlds import WORLDS, world_kind
from lab.worlds.spider.kind import TASK, VARIABLE
from shared_data import shared_data


def variant(task="sql", rate=None, weight=None, **grpo):
    site = Site(name=task, task=task, sets=world_kind(task).sets)
    candidate = Candidate(learning_rate=rate, interpolate=weight)
    return Variants(BudgetSettings()).of(site, MethodSettings(name="grpo", **grpo), candidate)


@pytest.mark.parametrize("task", WORLDS)
def test_without_a_rate_a_run_has_that_of_its_world(task):
    found = variant(task)
    assert found.learning_rate == world_kind(task).optimizer["learning_rate"]
    assert found.run_id(1) == variant(task, rate=found.learning_rate).run_id(1)
    assert found.run_id(1) != variant(task, rate=1e-6).run_id(1)


@pytest.mark.parametrize("task", WORLDS)
def test_sets_and_optimizer_of_a_kind_are_those_of_its_settings(tmp_path, task, monkeypatch):
    kind = world_kind(task)
    if task == TASK:
        monkeypatch.setenv(VARIABLE, str(shared_data("spider")))
    settings = kind.settings(kind.build(tmp_path, seed=0))
    assert settings["train"] == kind.optimizer
    assert tuple(settings["data"]["sets"]) == kind.sets


def test_a_mixture_is_named_by_its_weight_its_start_and_its_layers():
    def found(**mixture):
        made = variant(weight=0.5, interpolate=[0.5], **mixture)
        return made.run_id(1).removeprefix(made.training_id(1))

    assert found() == ".x0.5"
    assert found(interpolate_from=20) == ".x0.5.from20"
    assert found(interpolate_layers=[0, 2]) == ".x0.5.layers0-2"
    for alone in ({"interpolate_from": 20}, {"interpolate_layers": [0, 2]}):
        with pytest.raises(ValueError, match="need interpolate"):
            MethodSettings(name="grpo", **alone)
    with pytest.raises(ValueError, match="end above its start, got 2, 2"):
        MethodSettings(name="grpo", interpolate=[0.5], interpolate_layers=[2, 2])


def test_a_file_that_a_method_names_is_part_of_its_runs_ids(tmp_path):
    file = tmp_path / "more.jsonl"
    named = {"data.train": str(file)}
    file.write_text("a")
    first = variant(settings=named).run_id(1)
    assert variant(settings=named).run_id(1) == first
    file.write_text("b")
    assert variant(settings=named).run_id(1) != first


def test_a_method_may_be_measured_while_it_trains_on_sets_that_its_world_has():
    def arm(best):
        best = {"evaluate.every": 5, "evaluate.keep_best": best, "evaluate.result": "best"}
        return variant(label="best", settings=best)

    assert arm("in_domain/greedy").run_id(1) != arm("in_domain/mean").run_id(1)
    with pytest.raises(
        SettingsError, match=r"'best' on sql: .*names the set 'dev'; the measured sets are in_"
    ):
        arm("dev/greedy")
