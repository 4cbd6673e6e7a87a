import shutil

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dph.recipe import load_recipe
from lab.study.settings import load_study
from lab.study.sites import sites_of
from letters_world.kind import KIND

STUDY = """
[study]
name = "own"
seeds_development = [3]
seeds_report = [4]
jobs = 2
[rule.choose]
metric = "greedy + pass@1"
[[rule.compare]]
a = "dph_f"
b = "grpo"
metric = "greedy"
set = "in_domain"
[[recipes]]
path = "recipe.toml"
name = "task"
[[methods]]
name = "grpo"
steps = 2
[[methods]]
name = "dph_f"
steps = 2
strengths = [0.01, 0.1]
"""

RECIPE = """
name = "task"
method = "grpo"
[model]
path = "model"
threads = 1
[data]
train = "world/train.jsonl"
sets = { in_domain = "world/in_domain.jsonl" }
verifier = "exact"
[sampling]
max_tokens = 2
[presample]
samples = 4
threshold = 1
[train]
steps = 2
problems_per_step = 4
samples_per_problem = 4
learning_rate = 3e-4
[evaluate]
samples = 4
k = [1]
"""


@pytest.fixture
def example(tmp_path):
    """A recipe of a user, whose model has half learnt to say the last of three letters."""
    directory = tmp_path / "task"
    world = KIND.build(directory / "world", seed=0)
    KIND.train_base_model(world, directory / "model", seed=0, steps=KIND.base_steps)
    (directory / "recipe.toml").write_text(RECIPE)
    return directory / "recipe.toml"


def test_other_problems_are_another_task(example):
    file = example.parent / "STUDY.toml"
    file.write_text(STUDY)

    def identity():
        (site,) = sites_of(load_study(file).file, file.parent)
        return site.identity

    before, train = identity(), load_recipe(example).data.train
    problems = train.read_text()
    assert identity() == before
    train.write_text(
        problems + problems.splitlines()[0].replace('"problem_id": "', '"problem_id": "x')
    )
    assert identity() != before
    train.write_text(problems)
    assert identity() == before
    other = example.parent / "other.jsonl"
    other.write_text(problems)
    file.write_text(STUDY + f'[settings]\n"data.train" = "{other}"\n')
    named = identity()
    other.write_text(problems.splitlines()[0])
    assert identity() != named != before


@pytest.mark.slow
def test_a_recipe_takes_the_place_of_a_world_and_a_clone_goes_on(command, example):
    file = example.parent / "STUDY.toml"
    file.write_text(STUDY)
    code, out, err = command(file)
    assert code == 0, err
    assert "**Scores on task**" in out
    places = example.parent / "own"
    whole = (places / "study.parquet").read_bytes()
    rows = pq.read_table(places / "study.parquet").to_pylist()
    assert {row["world"] for row in rows} == {"task"}
    assert {row["seed"]: row["split"] for row in rows} == {3: "development", 4: "report"}
    assert {(row["method"], row["steps"]) for row in rows} == {
        ("base", 0), ("grpo", 2), ("dph_f", 2),
    }  # fmt: skip
    table = pq.read_table(places / "study.parquet")
    lost = pc.and_(pc.equal(table["seed"], 4), pc.equal(table["method"], "dph_f"))
    assert min(table.filter(lost)["rollouts"].to_pylist()) > 0
    assert min(table.filter(lost)["stored"].to_pylist()) > 0
    pq.write_table(table.filter(pc.invert(lost)), places / "study.parquet")
    shutil.rmtree(places / "work")
    code, _, err = command(file)
    assert code == 0, err
    assert err.startswith("own: 6 of 7 runs")
    assert (places / "study.parquet").read_bytes() == whole
