import json

import pytest
from safetensors.torch import load_file

from dph.errors import CheckpointError, DataError, SettingsError
from dph.recipe import SelfConsistencySettings
from dph.records import Problem
from dph.runs.prompts import file_prompts, same_prompts, with_new_words
from dph.tasks.problems import save_problems
from reproducible_log import reproducible_log
from run_stages import ran

UNLABELLED = tuple(Problem(problem_id=f"u{i}", prompt=f"say f {'abcdef'[i]}") for i in range(6))


@pytest.fixture
def recipe(make_recipe, tmp_path):
    """A recipe with 2 unlabelled problems of 4 a step."""

    def make(*, file=None, steps=4, **changes):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        own = {
            "problems_per_step": 2,
            "file": str(file or tmp_path / "unlabelled.jsonl"),
            "agreement": "own_agreement:first_letter",
        }
        return make_recipe(
            "grpo",
            self_consistency={**own, **changes},
            train={"steps": steps, "checkpoint_every": 2},
            data={"sets": {}},
        )

    return make


def weights(directory, step=4):
    return load_file(directory / "checkpoints" / f"step_{step:06d}" / "model.safetensors")


def test_a_run_that_was_stopped_ends_with_the_same_weights_and_metrics(recipe, tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    ran(recipe(), whole)
    ran(recipe(steps=2), halves)
    ran(recipe(), halves)
    one, other = weights(whole), weights(halves)
    assert all((one[name] == other[name]).all() for name in one)
    assert reproducible_log(whole) == reproducible_log(halves)
    assert any(row["unlabelled_reward"] > 0 for row in reproducible_log(whole))
    with pytest.raises(CheckpointError, match=r"self_consistency\.problems_per_step was 2, now 1"):
        ran(recipe(problems_per_step=1), halves)


def test_what_is_missing_is_said_before_anything_is_done(recipe, make_recipe, tmp_path):
    no_file = make_recipe("grpo", self_consistency={"problems_per_step": 2})
    with pytest.raises(SettingsError, match=r"needs self_consistency\.file"):
        ran(no_file, tmp_path / "run")
    with pytest.raises(SettingsError, match=r"'letter_grader:grade' says what is right"):
        ran(recipe(agreement=None), tmp_path / "run")
    save_problems(tmp_path / "few.jsonl", UNLABELLED[:1])
    with pytest.raises(SettingsError, match="only 1 unlabelled prompts"):
        ran(recipe(file=tmp_path / "few.jsonl"), tmp_path / "run")


TRAIN = tuple(
    Problem(problem_id=f"t{i}", prompt=f"How old is the {name} in cage {i}?")
    for i, name in enumerate(("cat", "dog", "emu"))
)


def problem(prompt):
    return Problem(problem_id="p", prompt=prompt)


def chat(*texts):
    return tuple(
        {"role": role, "content": text}
        for role, text in zip(("system", "user"), texts, strict=True)
    )


@pytest.fixture
def file(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def prompts(sets=None, **settings):
    settings = SelfConsistencySettings(problems_per_step=1, **settings)
    return file_prompts(settings, train=TRAIN, sets=sets or {})


def test_new_are_prompts_with_a_word_that_no_training_prompt_has():
    same, new = problem("the old cat is in the cage"), problem("How old is the YAK?")
    assert with_new_words([same, new], TRAIN) == [new]
    assert with_new_words([problem("CAT, cage!")], TRAIN) == []


def test_a_prompt_is_the_same_whatever_its_blanks_and_its_system_message():
    tests = [problem("How  old\nis it?"), problem(chat("be brief", "Who?"))]
    same = [problem(" How old is it?"), problem(chat("be verbose", "Who? "))]
    assert same_prompts(same, tests) == same
    assert same_prompts([problem("how old is it?"), problem("Who")], tests) == []


def test_columns_and_words_choose(file):
    rows = file(
        *({"problem_id": f"{i}", "prompt": f"the yak {i}", "part": "ab"[i % 2]} for i in range(5)),
        {"problem_id": "old", "prompt": "the cat", "part": "a"},
    )
    found = prompts(file=rows, only={"part": "a"}, novel=True)
    assert [p.problem_id for p in found] == ["0", "2", "4"]
    assert len(prompts(file=rows)) == 6
    with pytest.raises(DataError, match="no remaining row has part = 'c'; found 'a', 'b'"):
        prompts(file=rows, only={"part": "c"})
    with pytest.raises(DataError, match="no row has the column 'half'"):
        prompts(file=rows, only={"half": "c"})
    with pytest.raises(DataError, match=r"no prompt of .* is left with a word"):
        prompts(file=file({"problem_id": "x", "prompt": "cat"}), novel=True)


def test_prompts_of_a_test_are_refused_unless_its_set_is_named(file):
    rows = file({"problem_id": "x", "prompt": "the yak"}, {"problem_id": "y", "prompt": "a gnu"})
    sets = {"dev": [problem("the  yak")]}
    with pytest.raises(DataError, match="1 of 2 prompts are also in the evaluation set 'dev'"):
        prompts(sets, file=rows)
    assert len(prompts(sets, file=rows, allow_overlap=("dev",))) == 2
    with pytest.raises(SettingsError, match="there is no set 'test'; the sets are: dev"):
        prompts(sets, file=rows, allow_overlap=("test",))
