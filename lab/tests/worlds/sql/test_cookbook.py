import json
from pathlib import Path

import pytest

from dph._base.files.rows import read_rows
from dph.errors import SettingsError
from dph.recipe import resolve_recipe
from dph_corpus.cookbook.settings import load_cookbook
from lab.worlds.sql.cookbook import make

RECIPE = Path(__file__).parents[4] / "corpus/recipes/cookbook/cookbook.toml"
SETTINGS = {
    "sizes": {"train": 16, "in_domain": 8, "cross_domain": 1, "arithmetic": 1, "unlabelled": 1},
    "files": 3,
    "queries_per_file": 4,
    "questions": 10,
    "answers": 2,
}


def test_a_world_has_sources_tests_and_problems_and_is_made_once(tmp_path):
    made = make(SETTINGS, tmp_path, seed=3, workers=1)
    assert len(list(made.files["sql"].glob("*.sql"))) == 3
    answers = [row for _, row in read_rows(made.files["annotators"])]
    right = [row for _, row in read_rows(made.files["executed"])]
    assert len(answers) == 20
    assert [json.dumps(row) for row in answers if row in right] == list(map(json.dumps, right))
    table = {**made.recipe, "model": {"path": "m"}, "method": "grpo"}
    recipe = resolve_recipe(table)
    assert list(recipe.data.sets) == list(made.tests) == ["in_domain"]
    assert recipe.data.train.is_file()
    written = made.files["executed"].stat().st_mtime_ns
    assert make(SETTINGS, tmp_path, seed=3, workers=1) == made
    assert made.files["executed"].stat().st_mtime_ns == written
    assert make({**SETTINGS, "answers": 1}, tmp_path, seed=3, workers=1).digests != made.digests


def test_an_unknown_setting_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"\[world.settings\].*file"):
        make({"file": 1}, tmp_path, seed=0, workers=1)


def test_the_cookbook_of_the_package_names_this_world(tmp_path):
    cookbook = load_cookbook(RECIPE)
    assert cookbook.world.make == "lab.worlds.sql.cookbook:make"
    recipes = cookbook.rl_recipes(tmp_path, tmp_path / "pool", {"data": {"train": "t.jsonl"}})
    assert recipes["dph_f"].objective.anchors["rehearsal"].weight == 3.0
    assert recipes["grpo"].train.steps == recipes["dph_f"].train.steps == 40
