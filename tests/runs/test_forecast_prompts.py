"""Which prompts a forecast asks: some of either kind, never those of an evaluation set."""

import pytest

from dph.errors import DataError
from dph.runs.consolidation import prompts_asked
from dph.runs.plan import open_plan
from dph.runs.run import consolidation_recipe
from dph.tasks.problems import save_problems
from runs.test_broad import UNLABELLED


@pytest.fixture
def asked(make_recipe, tmp_path):
    def make(*, prompts=5, labelled=None, limit=None, seed=0, **sets):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        after = {"file": str(tmp_path / "unlabelled.jsonl"), "answers": 4, "tilt": 4.0}
        after |= {"limit": limit} if limit else {}
        recipe = make_recipe(
            "grpo",
            stores={"after": {**after, "agreement": "own_agreement:first_letter", "seed": seed}},
            consolidation={"updates": 2, "samples": "store:after"},
            **({"data": {"sets": sets["sets"]}} if sets else {}),
        )
        follows = consolidation_recipe(recipe, tmp_path / "model")
        with open_plan(follows, tmp_path / "run", all_sets=True) as plan:
            return prompts_asked(plan, prompts=prompts, labelled=labelled)

    return make


def test_training_problems_that_are_test_questions_are_left_out(asked, problems):
    found = asked(prompts=1000)
    assert found.where == "training problems"
    assert found.labelled == problems[6:]  # the first six are the set dev
    assert (found.unlabelled, found.planned) == (UNLABELLED, 12)


def test_so_many_are_drawn_by_the_seed_from_all_of_the_file(asked):
    one, again, other = asked(), asked(), asked(seed=1)
    assert one == again
    assert (one.labelled, one.unlabelled) != (other.labelled, other.unlabelled)
    assert (len(one.labelled), len(one.unlabelled), one.planned) == (5, 5, 12)
    few = asked(limit=3)
    assert (len(few.unlabelled), few.planned) == (3, 3)


def test_where_all_are_test_questions_others_are_asked_for(asked, tmp_path):
    with pytest.raises(DataError, match=r"all 24 training problems .*--labelled FILE"):
        asked(sets={"dev": str(tmp_path / "train.jsonl")})


def test_problems_of_ones_own_are_named_and_held_against_the_sets(asked, problems, tmp_path):
    file = tmp_path / "others.jsonl"
    save_problems(file, problems[10:14])
    found = asked(labelled=file)
    assert (found.where, found.labelled) == (f"problems of {file}", problems[10:14])
    save_problems(file, problems[4:14])
    with pytest.raises(DataError, match="--labelled: 2 of 10 prompts are prompts of the eval"):
        asked(labelled=file)
    with pytest.raises(DataError, match=r"none\.jsonl"):
        asked(labelled=tmp_path / "none.jsonl")
