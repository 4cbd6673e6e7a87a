"""Trajectories in verl: its agent loop draws what our own engine draws, and a recipe trains."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from asking_policy import TURN, initial_policy, make_tokenizer
from asking_policy import problems as asking_problems
from dph import Outcome, Problem, SettingsError
from dph.engines.stages.verl_stage import require_possible
from dph.engines.verl import trajectories
from dph.engines.verl.trajectories import Trajectory
from dph.recipe import load_recipe
from dph.runs.directory import read_metrics
from dph.runs.prepare import prepare
from dph.runs.presample.pool import load_pool
from dph.tasks.environments import Environment
from dph.tasks.problems import save_problems
from dph.tasks.verl import verl_row
from engines.verl.session import dph_run
from engines.verl.test_run_recipe import verl_table
from environment_classes import IncrementTo, RaisesInReset
from scripted_policy import END, by_steps_of, byte_tokenizer, make_draw

TESTS = Path(__file__).parents[2]
RECIPE = """
method = "dph_f"
[model]
path = "model"
device = "cpu"
[data]
train = "problems.jsonl"
modules = [{modules}]
[data.sets]
same = "problems.jsonl"
[environment]
path = "environment_classes:Lookup"
form = "plain"
hidden = ["answer"]
tokens = 24
turns = 4
[sampling]
max_tokens = 6
[presample]
samples = 8
threshold = 1
[train]
steps = 2
problems = "all"
problems_per_step = 4
samples_per_problem = 8
rehearsal_per_step = 6
minibatches = 1
learning_rate = 1e-4
[evaluate]
samples = 2
"""


class ScriptedServer:
    """verl's server, whose policy says what a script says."""

    def __init__(self, tokenizer, member):
        self.tokenizer, self.member, self.seeds = tokenizer, member, []

    async def generate(self, *, prompt_ids, sampling_params, **_):
        self.seeds.append(sampling_params["seed"])
        text = by_steps_of(1)(self.tokenizer.decode(prompt_ids), self.member) + END
        ids = self.tokenizer.encode(text)[: sampling_params["max_tokens"]]
        # As verl's client: the weights of this turn, here new ones before every turn.
        said = dict.fromkeys(("min_global_steps", "max_global_steps"), 4 + len(self.seeds))
        return SimpleNamespace(token_ids=ids, log_probs=[-1.0] * len(ids), extra_fields=said)


def looped(composed, tokenizer, environment, problem, member, monkeypatch, *, turn=200, room=1000):
    """What verl's agent loop gets back."""
    config = composed("dph_train", "dph.pool=pool", "dph.environment=recipe.toml")
    recipe = SimpleNamespace(sampling=SimpleNamespace(max_tokens=turn))
    monkeypatch.setattr(trajectories, "_opened", lambda _: (recipe, environment, None))
    monkeypatch.setattr(trajectories, "stop_ids", lambda *_: (tokenizer.eos_token_id,))
    loop = object.__new__(Trajectory)
    loop.config, loop.tokenizer = config, tokenizer
    loop.server_manager = ScriptedServer(tokenizer, member)
    loop.rollout_config = SimpleNamespace(prompt_length=2000, response_length=room)
    row = verl_row(problem, index=0, ground_truth="target")
    fields = {**row, "raw_prompt": row.pop("prompt"), "session_id": member, "global_steps": 7}
    return loop, asyncio.run(loop.run({"temperature": 1.0}, **fields))


def test_the_loop_draws_the_trajectories_of_our_own_engine(composed, monkeypatch):
    tokenizer = byte_tokenizer()
    problem = Problem(problem_id="to 3", prompt="Increment to 3.", answer={"target": 3})
    with Environment(IncrementTo) as environment:
        draw = make_draw(tokenizer, environment, by_steps_of(1))
        [group] = draw([problem], samples=3, seed=0).groups
        for member, graded in enumerate(group):
            loop, out = looped(composed, tokenizer, environment, problem, member, monkeypatch)
            own = graded.completion
            assert tuple(out.response_ids) == own.token_ids
            assert tuple(out.response_mask) == tuple(map(int, own.written))
            assert out.reward_score == graded.verdict.reward
            assert len(set(loop.server_manager.seeds)) == len(loop.server_manager.seeds)
            assert out.extra_fields["reward_extra_info"]["outcome"] == graded.verdict.outcome
            assert out.extra_fields["min_global_steps"] == 5
            assert out.extra_fields["max_global_steps"] == 4 + len(loop.server_manager.seeds)
    assert [graded.verdict.reward for graded in group] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("reason", "kind", "limits"),
    [
        ("max_tokens", IncrementTo, {"turn": 5}),
        ("room", IncrementTo, {"room": 250}),
        ("no column", RaisesInReset, {}),
    ],
)
def test_what_is_cut_off_or_cannot_begin_earns_nothing(composed, monkeypatch, reason, kind, limits):
    tokenizer = byte_tokenizer()
    problem = Problem(problem_id="to 3", prompt="Increment to 3.", answer={"target": 3})
    with Environment(kind) as environment:
        _, out = looped(composed, tokenizer, environment, problem, 0, monkeypatch, **limits)
    told = out.extra_fields["reward_extra_info"]
    expected = (Outcome.CUT_OFF, 5) if limits else (Outcome.CRASHED, 6)  # before step 7
    assert (told["outcome"], out.extra_fields["min_global_steps"]) == expected
    assert (out.reward_score, reason in told["reason"]) == (0.0, True)
    assert len(out.response_ids) <= 250


def place_of(directory, more=""):
    tokenizer = make_tokenizer()
    initial_policy(tokenizer).save_pretrained(directory / "model")
    tokenizer.save_pretrained(directory / "model")
    save_problems(directory / "problems.jsonl", asking_problems()[:4])
    text = RECIPE.format(modules=json.dumps(str(TESTS))) + more
    (directory / "small.toml").write_text(text)


def test_a_reward_that_depends_on_the_length_is_refused(tmp_path):
    place_of(tmp_path)
    overrides = ["objective.overlong_buffer=0.5", "train.engine=verl"]
    recipe = load_recipe(tmp_path / "small.toml", overrides=overrides)
    message = r"\[environment\] with objective\.overlong_buffer is not possible"
    refused = pytest.raises(SettingsError, match=message)
    with prepare(recipe, tmp_path, stage="presample") as job, refused:
        require_possible(job)


@pytest.mark.slow
def test_a_recipe_with_an_environment_rehearses_its_trajectories_in_verl(tmp_path):
    place_of(tmp_path, verl_table())
    with dph_run(tmp_path) as run:
        run()
    stored = load_pool(tmp_path / "out" / "pool").rehearsal
    assert any(not all(sample.written) for sample in stored)
    lines = read_metrics(tmp_path / "out" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert 0 <= line["reward"] <= 1
        assert line["correct"] == line["outcome_correct"]
        assert 0 < line["completion_tokens"] <= 4 * TURN
    # Nothing was learnt yet: results of tools, which no policy wrote, would be far from 0.
    assert lines[0]["divergence"] == pytest.approx(0, abs=1e-3)
    assert any(line["grad_norm"] > 0 for line in lines)
