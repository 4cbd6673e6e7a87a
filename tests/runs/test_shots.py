"""Examples before every prompt of a run: the same, never a test, and not trained on."""

import pytest

import dph
from dph import DataError, SettingsError
from dph.model.policies import load_policy
from dph.recipe import resolve_recipe
from dph.runs.plan import open_plan
from dph.runs.preflight import preflight
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import pool_source
from dph.runs.task import Example, Shots, recipe_shots
from dph.tasks.problems import save_problems


@pytest.fixture
def make_shown(make_recipe, problems, tmp_path):
    """Recipes with examples, on training problems and tests that have none in common."""
    save_problems(tmp_path / "dev.jsonl", problems[18:])
    save_problems(tmp_path / "train.jsonl", problems[:18])

    def make(shots, method="dph_f", **sections):
        data = {
            "train": str(tmp_path / "train.jsonl"),
            "sets": {"dev": str(tmp_path / "dev.jsonl")},
            "verifier": "letter_grader:grade",
            "shots": shots,
        }
        return make_recipe(method, data=data, **sections)

    return make


SHOWN = {"count": 2, "template": "{prompt} {answer} "}


def test_every_prompt_of_a_run_begins_with_the_same_examples(make_shown, tmp_path, tokenizer):
    recipe = make_shown(SHOWN)
    with open_plan(recipe, tmp_path / "run") as plan:
        assert len(plan.problems) == 16
        shown = {each.prompt for each in plan.prompts.shots.examples}
        assert shown.isdisjoint(problem.prompt for problem in plan.problems)
        beginning = plan.prompts.encode(plan.problems[0])[: -len(plan.problems[0].prompt.split())]
        everything = [*plan.problems, *plan.sets["dev"]]
        assert all(plan.prompts.encode(p)[: len(beginning)] == beginning for p in everything)
        assert tokenizer.decode(beginning).split()[0] == "say"
    dph.run(recipe, tmp_path / "run")
    pool = load_pool(tmp_path / "run" / "pool")
    assert pool.rehearsal
    assert all(row.prompt_ids[: len(beginning)] == beginning for row in pool.rehearsal)
    assert len(pool.exploration) + len(pool.rehearsal) <= 16


def test_other_examples_are_another_pool(make_shown, tmp_path):
    fingerprints = set()
    for shots in (None, SHOWN, SHOWN | {"seed": 1}, SHOWN | {"template": "{prompt} is {answer} "}):
        with open_plan(make_shown(shots), tmp_path / "run") as plan:
            model = load_policy(plan.initial, plan.recipe.model, initial=plan.initial)
            source = pool_source(plan, model)
            fingerprints.add(source.prompts_fingerprint)
    assert len(fingerprints) == 4


def test_a_test_among_the_examples_is_refused(make_shown, tmp_path, problems):
    save_problems(tmp_path / "shown.jsonl", problems[18:20])
    recipe = make_shown({"file": str(tmp_path / "shown.jsonl")})
    with pytest.raises(DataError, match="'18' of the evaluation set 'dev' is among the examples"):
        dph.run(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / "pool").exists()
    assert any("is among the examples" in error for error in preflight(recipe).errors)


def test_examples_count_for_the_lengths_of_prompts(make_shown):
    recipe = make_shown({"count": 8, "template": "{prompt} {answer} "})
    assert any("exceed the model's context" in error for error in preflight(recipe).errors)


def test_braces_of_an_example_stay():
    shots = Shots((Example("Say {answer}: 1 + 1", "{prompt}"),), "{prompt} = {answer}\n")
    asked = shots.before(dph.Problem(problem_id="p", prompt="2 {answer}"), chat=False).prompt
    assert asked == "Say {answer}: 1 + 1 = {prompt}\n2 {answer} ="


def test_a_template_is_for_plain_prompts(make_shown):
    recipe = make_shown(SHOWN)
    chat = recipe.model_copy(update={"data": recipe.data.model_copy(update={"chat": True})})
    with pytest.raises(SettingsError, match="template is for plain prompts"):
        recipe_shots(chat, [])


@pytest.mark.parametrize(
    ("shots", "message"),
    [
        ({}, "needs a file, or the count"),
        ({"count": 0}, "greater than or equal to 1"),
        ({"count": 1, "template": "{answer} {prompt}"}, "needs {prompt} and then {answer}"),
        ({"count": 1, "template": "{prompt}"}, "needs {prompt} and then {answer}"),
        ({"count": 1, "template": "{prompt}{prompt}{answer}"}, "once each"),
    ],
)
def test_settings_of_examples_are_checked(tmp_path, shots, message):
    with pytest.raises(SettingsError, match=message):
        resolve_recipe({"data": {"train": str(tmp_path / "t.jsonl"), "shots": shots}})
