import pytest

from dph.errors import DataError
from dph.runs import set_problems
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.set_problems import SetProblems
from dph.runs.workbench import open_workbench


@pytest.fixture
def reads(monkeypatch):
    found, load = [], set_problems.load_problems
    monkeypatch.setattr(
        set_problems,
        "load_problems",
        lambda path, **named: found.append(path.name) or load(path, **named),
    )
    return found


def test_a_run_reads_every_evaluation_set_once(make_recipe, tmp_path, reads):
    sets = {"dev": str(tmp_path / "dev.jsonl"), "again": str(tmp_path / "train.jsonl")}
    recipe = make_recipe("grpo", data={"sets": sets})
    read = SetProblems(recipe).load_all()
    with open_workbench(recipe, sets=read) as bench:
        run_stages(bench, tmp_path / "run", Silent())
    assert reads == ["dev.jsonl", "train.jsonl"]


def test_nothing_is_read_before_it_is_asked_for(make_recipe, tmp_path, reads):
    recipe = make_recipe(data={"sets": {"gone": str(tmp_path / "gone.jsonl")}})
    with open_workbench(recipe) as bench:
        assert reads == []
        with pytest.raises(DataError, match=r"gone\.jsonl"):
            bench.sets["gone"]
