import pytest

import dph
from dph import DataError, SettingsError
from dph.model.policies import load_policy
from dph.recipe import resolve_recipe
from dph.records import Problem
from dph.runs.check import check
from dph.runs.prepare import prepare
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import pool_source
from dph.runs.prompts import Example, Shots, recipe_shots
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
    with prepare(recipe, tmp_path / "run") as plan:
        assert len(plan.problems) == 16
        shown = {each.prompt for each in plan.prompts.shots.examples}
        assert shown.isdisjoint(problem.prompt for problem in plan.problems)
        beginning = plan.prompts.encode(plan.problems[0])[: -len(plan.problems[0].prompt.split())]
        everything = [*plan.problems, *plan.sets["dev"].problems]
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
        with prepare(make_shown(shots), tmp_path / "run") as plan:
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
    assert any("is among the examples" in error for error in check(recipe).errors)


def test_examples_count_for_the_lengths_of_prompts(make_shown):
    recipe = make_shown({"count": 8, "template": "{prompt} {answer} "})
    assert any("exceed the model's context" in error for error in check(recipe).errors)


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


SHOTS = Shots((Example("1 + 1", "2"), Example("{x}", "{answer}")), "Q: {prompt}\nA: {answer}\n\n")


def text(prompt):
    return Problem(problem_id="p", prompt=prompt, answer={"answer": "3"})


def test_a_question_ends_where_its_answer_would_begin():
    asked = SHOTS.before(text("1 + 2"), chat=False)
    assert asked.prompt == "Q: 1 + 1\nA: 2\n\nQ: {x}\nA: {answer}\n\nQ: 1 + 2\nA:"
    assert (asked.problem_id, asked.answer) == ("p", {"answer": "3"})


@pytest.mark.parametrize("chat", [False, True])
def test_examples_are_put_before_a_problem_once(chat):
    once = SHOTS.before(text("1 + 2"), chat=chat)
    assert SHOTS.before(once, chat=chat) == once


def test_in_a_chat_each_example_is_a_message_of_the_user_and_one_of_the_assistant():
    system = {"role": "system", "content": "Be short."}
    asked = Shots((Example("1 + 1", "2"),)).before(
        Problem(problem_id="p", prompt=(system, {"role": "user", "content": "1 + 2"})), chat=False
    )
    assert asked.prompt == (
        system,
        {"role": "user", "content": "1 + 1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "1 + 2"},
    )


@pytest.fixture
def shown(tmp_path):
    """The examples from some problems, which are the training problems unless a file is named."""

    def of(problems, **settings):
        data = {"train": str(tmp_path / "f.jsonl"), "shots": {"answer": "gold", **settings}}
        shots, _ = recipe_shots(resolve_recipe({"model": {"path": "m"}, "data": data}), problems)
        return [example.prompt for example in shots.examples]

    return of


def test_the_seed_draws_and_without_a_count_the_order_is_the_files(shown, tmp_path):
    problems = [Problem(problem_id=f"{i}", prompt=f"q{i}", answer={"gold": i}) for i in range(9)]
    first = shown(problems, count=4)
    assert shown(problems, count=4) == first != shown(problems, count=4, seed=1)
    assert len(set(first)) == 4
    save_problems(tmp_path / "all.jsonl", problems)
    assert shown([], file=str(tmp_path / "all.jsonl")) == [f"q{i}" for i in range(9)]


CHAT = Problem(problem_id="c", prompt=({"role": "user", "content": "a"},), answer={"gold": 1})


@pytest.mark.parametrize(
    ("problem", "count", "message"),
    [
        (text("a"), 2, r"2 examples needed, but .*f\.jsonl has 1"),
        (text("a"), 1, r"'p' of .*f\.jsonl has no 'gold'; its fields are \['answer'\]"),
        (CHAT, 1, r"'c' of .*f\.jsonl is a chat; an example must be text"),
    ],
)
def test_what_cannot_be_shown_is_one_message(shown, problem, count, message):
    with pytest.raises(DataError, match=message):
        shown([problem], count=count)
