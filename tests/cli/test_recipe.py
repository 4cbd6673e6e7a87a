import json
from pathlib import Path

import pytest

from dph.cli.display.recipe_plan import stages
from dph.recipe import resolve_recipe
from dph.recipe.keys import known_keys

RECIPES = sorted((Path(__file__).parents[2] / "recipes").rglob("*.toml"))


@pytest.mark.usefixtures("extras_installed")
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_of_the_repository_pass_the_check(dph, path):
    code, out, _ = dph("recipe", "check", path)
    assert code == 0
    assert "valid, method dph_f" in out


def test_the_check_says_what_would_run_and_what_is_not_there(document, example):
    content = document("recipe", "check", example, settings=["model.path=gone"])
    assert content["valid"]
    assert [stage.split(":")[0] for stage in content["stages"]] == [
        "pre-sample",
        "train",
        "evaluate",
    ]
    assert content["notes"] == ["model.path does not exist: gone"]


def test_a_method_without_rehearsal_is_not_presampled(dph, example):
    out = dph("recipe", "check", example, "--set", "method=rkl", "--set", "data.sets={}")[1]
    assert "pre-sample:" not in out
    assert "KL penalty 0.01 (unbiased)" in out
    assert "evaluate: nothing, because [data.sets] names no set" in out


def test_without_a_recipe_every_key_is_shown(document):
    out = document("recipe", "show")
    assert list(out) == [key for key, _ in known_keys()]
    assert out["model.path"] == {
        "meaning": "directory of a saved transformers model and its tokenizer, or a model of "
        "the Hub as org/name",
        "required": True,
    }
    assert out["train.betas"]["default"] == [0.9, 0.95]


def test_show_marks_what_differs_from_the_default(dph, example):
    code, out, _ = dph("recipe", "show", example, "--set", "train.steps=9")
    lines = out.splitlines()
    assert code == 0
    assert "* train.steps = 9  (default 100)" in lines
    assert "  train.epochs = 1" in lines
    assert "* objective.anchors.rehearsal.weight = 0.01  (default 0.0)" in lines
    assert any(line.startswith("* data.sets.train.path = ") for line in lines)


def test_an_override_needs_a_recipe(refusal):
    assert "--set needs a recipe" in refusal("recipe", "show", "--set", "train.steps=9")


def test_the_recipes_of_the_package_are_listed_and_copied(dph, document, refusal, tmp_path):
    code, out, _ = dph("recipe", "list")
    assert code == 0
    assert "example-own-task/recipe: Your own task: " in out
    assert document("recipe", "list")["paper-qwen2.5-math-7b"]
    copy = tmp_path / "task"
    code, out, _ = dph("recipe", "copy", "example-own-task", "--out", copy)
    assert (code, out) == (0, f"recipe: {copy / 'recipe.toml'}\n")
    assert dph("recipe", "check", copy / "recipe.toml")[0] == 0
    assert "already exists" in refusal("recipe", "copy", "example-own-task", "--out", copy)
    again = dph("recipe", "copy", "paper-qwen2.5-math-7b", "--out", tmp_path / "a.toml", "--json")[
        1
    ]
    assert json.loads(again) == {"recipes": [str(tmp_path / "a.toml")]}


def test_the_settings_of_another_kind_of_recipe_are_not_taken_for_those_of_a_run(refusal, tmp_path):
    (tmp_path / "base.toml").write_text('kind = "base"\n')
    assert 'base.toml has kind = "base": it is a recipe of dph-corpus' in refusal(
        "recipe", "show", tmp_path / "base.toml"
    )


MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


def test_an_advantage_other_than_grpos_is_told_and_what_needs_a_pool_makes_one():
    (training, *_) = stages(resolve_recipe({**MINIMAL, "method": "ucpo"}))
    assert "x 8 samples, advantage ucpo (0.2, std), 2 mini-batches" in training
    assert "advantage" not in stages(resolve_recipe({**MINIMAL, "method": "grpo"}))[0]
    presampling, training, *_ = stages(resolve_recipe({**MINIMAL, "method": "dph_f"}))
    assert presampling.startswith("pre-sample")
    assert "+ 32 rehearsal samples (forward_kl, eta 0.01)" in training
