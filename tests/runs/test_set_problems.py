import pytest

from dph.errors import DataError
from dph.runs import task
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.run import run_stages


@pytest.fixture
def reads(monkeypatch):
    found, load = [], task.load_problems
    monkeypatch.setattr(
        task,
        "load_problems",
        lambda path, **named: found.append(path.name) or load(path, **named),
    )
    return found


def test_a_run_reads_every_evaluation_set_once(make_recipe, tmp_path, reads):
    sets = {"dev": str(tmp_path / "dev.jsonl"), "again": str(tmp_path / "train.jsonl")}
    recipe = make_recipe("grpo", data={"sets": sets})
    with open_plan(recipe, tmp_path / "run", all_sets=True) as plan:
        run_stages(plan, Silent())
    assert reads == ["dev.jsonl", "train.jsonl"]


def test_nothing_is_read_before_it_is_asked_for(make_recipe, tmp_path, reads):
    recipe = make_recipe(data={"sets": {"gone": str(tmp_path / "gone.jsonl")}})
    with open_plan(recipe, tmp_path / "run") as plan:
        assert reads == []
        with pytest.raises(DataError, match=r"gone\.jsonl"):
            plan.sets["gone"]
