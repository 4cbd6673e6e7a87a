"""The verifiers as a reward function of verl, loaded as verl loads it."""

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.reward import get_custom_reward_fn

from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks.problems import load_problems
from dph.tasks.verl import verl_row
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.world import build_world


def reward(**settings):
    """The function that verl's reward manager would call."""
    function = {
        "path": "pkg://dph.engines.verl.reward_manager",
        "name": "compute_score",
        "reward_kwargs": settings,
    }
    return get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": function}}))


def score(function, row, answer):
    return function(
        data_source=row["data_source"],
        solution_str=answer,
        ground_truth=row["reward_model"]["ground_truth"],
        extra_info={**row["extra_info"], "num_turns": 2},
        reward_router_address=None,
    )


def test_sql_of_converted_problems_is_run_against_their_database(tmp_path):
    sizes = SQLWorldSizes(train=4, in_domain=1, cross_domain=1, arithmetic=1)
    world = build_world(tmp_path, seed=0, sizes=sizes)
    problem = load_problems(world.problems_path("train"))[0]
    function = reward(verifier="sql", databases=str(world.databases_directory))
    row = verl_row(problem, index=0)
    right = score(function, row, problem.answer["gold_sql"])
    assert (right["score"], right["outcome"]) == (1.0, "CORRECT")
    broken = score(function, row, "SELECT nothing FROM nowhere")
    assert (broken["score"], broken["outcome"]) == (0.0, "INVALID")
    assert broken["reason"]


def test_rows_of_verls_own_data_need_a_ground_truth_only():
    row = {
        "data_source": "openai/gsm8k",
        "reward_model": {"style": "rule", "ground_truth": "72"},
        "extra_info": {"index": 0, "split": "train"},
    }
    function = reward(verifier="math")
    assert score(function, row, r"so \boxed{72}")["acc"] == 1.0
    assert score(function, row, r"so \boxed{73}")["acc"] == 0.0


def test_a_row_that_was_damaged_is_an_error():
    row = verl_row(Problem(problem_id="a", prompt="?", answer={"answer": "1"}), index=0)
    row["extra_info"]["answer_json"] = "{"
    with pytest.raises(DataError, match="answer_json is not JSON"):
        score(reward(verifier="exact"), row, "1")


@pytest.mark.parametrize(
    ("name", "message"), [("maths", "there is no verifier 'maths'"), ("math_qwen", "antlr4")]
)
def test_a_verifier_that_is_not_there_or_would_grade_wrong_is_refused(name, message):
    row = verl_row(Problem(problem_id="a", prompt="?", answer={"answer": "1"}), index=0)
    with pytest.raises(SettingsError, match=message):
        score(reward(verifier=name), row, "1")
