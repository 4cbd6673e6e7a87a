"""The verifiers in verl's reward loop, and prompts as the package makes them."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.reward import get_custom_reward_fn

from dph._base.randomness import derived_seed
from dph.engines.verl import reward_manager as reward_function
from dph.engines.verl.prompts import (
    SingleTurn,
    problem_of_fields,
    prompt_ids,
    require_prompts_fit,
    stop_ids,
)
from dph.engines.verl.reward_manager import DPHRewardManager
from dph.engines.verl.settings import SharedSettings
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.problems import load_problems
from dph.tasks.verl import verl_row
from engines.verl.rows import make_model
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.world import build_world
from tiny_models import build_tokenizer

LIMIT = 6


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    make_model().save_pretrained(directory)
    build_tokenizer().save_pretrained(directory)
    return directory


def config(model, **group):
    return OmegaConf.create(
        {
            "dph": {"pool": "pool", "chat": False, **group},
            "actor_rollout_ref": {
                "model": {"path": str(model)},
                "rollout": {"response_length": LIMIT, "prompt_length": 4},
            },
            "data": {},
        }
    )


def fields(problem, **more):
    """A row as it reaches a worker: through parquet, with what verl adds."""
    row = verl_row(problem, index=0)
    row["extra_info"] |= {"num_turns": 2, "rollout_reward_scores": {}}
    return {**row, "raw_prompt": row["prompt"], "index": 0, **more}


class Data(list):
    """As much of DataProto as a reward manager uses."""

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return Data(found) if isinstance(index, slice) else found


def graded(manager_config, problem, ids, *, padding=0):
    answer = torch.tensor([*ids, *[0] * padding])
    mask = torch.tensor([1, 1, *[1] * len(ids), *[0] * padding])
    item = SimpleNamespace(
        batch={"responses": answer, "attention_mask": mask}, non_tensor_batch=fields(problem)
    )

    async def run():
        manager = DPHRewardManager(manager_config, build_tokenizer(), None, reward_router=None)
        try:
            return await manager.run_single(Data([item]))
        finally:
            manager._verifier.close()

    return asyncio.run(run())


WANTED = Problem(problem_id="a", prompt="w5 w6", answer={"answer": "w7 w8"})
RIGHT, WRONG = (7, 8, 1), (7, 9, 1)


def test_a_right_answer_gets_1_and_a_wrong_one_or_one_that_was_cut_off_0(model):
    for padding in (0, 3):  # behind an answer is no part of it
        assert graded(config(model), WANTED, RIGHT, padding=padding)["reward_score"] == 1.0
    found = graded(config(model), WANTED, WRONG)
    assert found["reward_score"] == 0.0
    assert found["reward_extra_info"]["outcome"] == "WRONG"
    assert found["reward_extra_info"]["reason"]

    found = graded(config(model), WANTED, (7, 8))
    assert found["reward_extra_info"]["outcome"] == "CUT_OFF"
    assert found["reward_score"] == 0.0


def test_the_overlong_penalty_is_in_the_score_and_not_in_acc(model):
    # A buffer of 4 of 6 tokens: an answer of 3 tokens loses 1 / 4.
    found = graded(config(model, overlong_buffer=4 / LIMIT), WANTED, RIGHT)
    assert found["reward_score"] == pytest.approx(0.75)
    assert found["reward_extra_info"]["acc"] == 1.0
    nested = config(model, objective={"overlong_buffer": 4 / LIMIT})
    assert graded(nested, WANTED, RIGHT)["reward_score"] == pytest.approx(0.75)


def test_what_cannot_be_graded_says_so_and_a_broken_verifier_ends_nothing(model, caplog):
    problem = Problem(problem_id="a", prompt="w5", answer={"answer": "no number"})
    found = graded(config(model, verifier="number"), problem, RIGHT)
    assert found["reward_extra_info"]["outcome"] == "BAD_GOLD"
    assert "BAD_GOLD: problem 'a'" in caplog.text
    found = graded(config(model, verifier="json:loads"), WANTED, RIGHT)
    assert found["reward_extra_info"]["outcome"] == "CRASHED"
    assert "CRASHED: problem 'a': TypeError" in caplog.text


class OneAtATime:
    """A verifier that notes how many threads are in it at once, and takes its time."""

    name, version = "one_at_a_time", "1"

    def __init__(self):
        self.inside = self.most = 0

    def grade(self, problems, _):
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.02)
        self.inside -= 1
        return [Verdict(outcome=Outcome.BAD_GOLD, reward=0.0, reason="none") for _ in problems]

    def close(self):
        pass


def test_answers_that_come_together_are_graded_one_at_a_time(model, monkeypatch, caplog):
    verifier = OneAtATime()
    monkeypatch.setattr(SharedSettings, "make_verifier", lambda _: verifier)
    item = SimpleNamespace(
        batch={"responses": torch.tensor(RIGHT), "attention_mask": torch.ones(5)},
        non_tensor_batch=fields(WANTED),
    )

    async def run():
        manager = DPHRewardManager(config(model), build_tokenizer(), None, reward_router=None)
        return await asyncio.gather(*(manager.run_single(Data([item])) for _ in range(8)))

    found = asyncio.run(run())
    assert [one["reward_extra_info"]["outcome"] for one in found] == ["BAD_GOLD"] * 8
    assert verifier.most == 1
    assert caplog.text.count("told once") == 1


def test_the_reward_function_grades_one_at_a_time_with_one_verifier(monkeypatch):
    made = []

    def make(*_, **__):
        time.sleep(0.02)
        made.append(OneAtATime())
        return made[-1]

    monkeypatch.setattr(reward_function, "make_verifier", make)
    reward_function._verifier.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(lambda _: reward_function.compute_score("d", "w7", "w7"), range(8))
        )
    reward_function._verifier.cache_clear()
    assert [one["outcome"] for one in found] == ["BAD_GOLD"] * 8
    (verifier,) = made
    assert verifier.most == 1


def test_a_row_of_verls_own_data_gets_its_ground_truth_under_the_name_asked_for():
    row = {
        "data_source": "spider",
        "raw_prompt": [{"role": "user", "content": "How many?"}],
        "reward_model": {"style": "rule", "ground_truth": "SELECT 1"},
        "extra_info": {"index": 3, "split": "train"},
    }
    problem = problem_of_fields(row, SharedSettings(pool="pool", ground_truth="gold_sql"))
    assert problem.problem_id == "spider/train/3"
    assert problem.answer["gold_sql"] == "SELECT 1"
    assert problem.prompt == ({"role": "user", "content": "How many?"},)
    assert problem_of_fields(fields(WANTED), SharedSettings(pool="pool")) == WANTED


def test_an_answer_ends_at_the_tokenizers_and_the_models_stop_tokens(model, tmp_path):
    assert stop_ids(config(model), build_tokenizer()) == (1,)
    grown = make_model()
    grown.generation_config.eos_token_id = [1, 40]
    grown.save_pretrained(tmp_path)
    assert stop_ids(config(tmp_path), build_tokenizer()) == (1, 40)


def loop(model, **group):
    """Our agent loop with a server that notes what it is asked."""
    seen = {}

    class Server:
        async def generate(self, **request):
            seen.update(request)
            return SimpleNamespace(
                token_ids=list(range(3, 12)),
                log_probs=[-1.0] * 9,
                num_preempted=None,
                extra_fields={"global_steps": 1},
            )

    agent = SingleTurn.__new__(SingleTurn)
    agent.config = config(model, **group)
    agent.rollout_config = agent.config.actor_rollout_ref.rollout
    agent.tokenizer, agent.server_manager = build_tokenizer(), Server()
    return agent, seen


def test_the_prompt_is_tokenised_as_in_the_package_and_the_answer_cut_at_its_limit(model):
    agent, seen = loop(model)
    output = asyncio.run(agent.run({"temperature": 1.0}, **fields(WANTED)))
    settings = SharedSettings(pool="pool", chat=False)
    assert tuple(seen["prompt_ids"]) == prompt_ids(build_tokenizer(), WANTED, settings) == (5, 6)
    assert output.prompt_ids == [5, 6]
    assert output.response_ids == [3, 4, 5, 6, 7, 8]
    assert output.response_mask == [1] * LIMIT
    assert len(output.response_logprobs) == LIMIT


def test_an_answers_seed_depends_on_problem_step_and_sample_where_a_rollout_takes_one(model):
    agent, seen = loop(model, seed=4)
    asyncio.run(agent.run({}, **fields(WANTED, global_steps=2, session_id=3)))
    assert seen["sampling_params"]["seed"] == derived_seed(4, "verl", "a", 2, 3)
    agent, seen = loop(model, seed_requests=False)
    asyncio.run(agent.run({"top_p": 1.0}, **fields(WANTED)))
    assert seen["sampling_params"] == {"top_p": 1.0}


def test_prompts_that_are_too_long_or_empty_are_refused_before_anything_starts(model):
    long, empty = (
        Problem(problem_id=name, prompt=prompt, answer={"answer": "w7"})
        for name, prompt in (("long", "w5 w6 w7 w8 w9"), ("empty", "  "))
    )
    settings, tokenizer = SharedSettings(pool="pool", chat=False), build_tokenizer()
    require_prompts_fit([WANTED], settings, config(model), tokenizer)
    with pytest.raises(SettingsError, match="'long' has 5 tokens, above"):
        require_prompts_fit([WANTED, long], settings, config(model), tokenizer)
    with pytest.raises(DataError, match="'empty' is empty"):
        require_prompts_fit([empty], settings, config(model), tokenizer)
    agent, _ = loop(model)  # and by the agent loop too
    with pytest.raises(DataError, match="has 5 tokens"):
        asyncio.run(agent.run({}, **fields(long)))


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


def test_rows_of_verls_own_data_need_a_ground_truth_only_and_damaged_ones_are_errors():
    row = {
        "data_source": "openai/gsm8k",
        "reward_model": {"style": "rule", "ground_truth": "72"},
        "extra_info": {"index": 0, "split": "train"},
    }
    function = reward(verifier="math")
    assert score(function, row, r"so \boxed{72}")["acc"] == 1.0
    assert score(function, row, r"so \boxed{73}")["acc"] == 0.0
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
