import importlib.util
from pathlib import Path

import pytest
import torch

from dph.runs.train.loop import Actors, train
from letter_task import LetterVerifier
from loop_parts import letters_recipe, stored_answer

EXAMPLE = Path(__file__).parents[3] / "examples" / "minimal_loop.py"
CONSTANTS = {
    "SEED": 3,
    "STEPS": 3,
    "PROBLEMS": 6,
    "SAMPLES": 4,
    "REHEARSED": 5,
    "LEARNING_RATE": 5e-2,
    "EPS": 1e-2,
    "ETA": 0.7,
    "MAX_TOKENS": 8,
}


@pytest.fixture
def example(monkeypatch):
    """The example, at the size of the tests' task."""
    spec = importlib.util.spec_from_file_location("minimal_loop", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in CONSTANTS.items():
        monkeypatch.setattr(module, name, value)
    return module


def recipe():
    names = {
        "steps": "STEPS",
        "problems_per_step": "PROBLEMS",
        "samples_per_problem": "SAMPLES",
        "rehearsal_per_step": "REHEARSED",
        "learning_rate": "LEARNING_RATE",
        "eps": "EPS",
    }
    return letters_recipe(
        "dph_f",
        seed=CONSTANTS["SEED"],
        objective={"eta": CONSTANTS["ETA"]},
        train={key: CONSTANTS[name] for key, name in names.items()},
    )


def own_right_answers(draw, problems):
    rollout, found = draw(problems, samples=6, seed=9), []
    for prompt, group in zip(rollout.prompts, rollout.groups, strict=True):
        for one in (graded.completion for graded in group if graded.verdict.reward):
            name = {"problem": one.problem_id, "index": one.sample_index}
            found.append(stored_answer(one.token_ids, one.logprobs, prompt=prompt, **name))
    return found


def test_three_steps_end_with_the_weights_of_train(
    example, make_model, make_draw, tokenizer, problems, tmp_path
):
    stored = own_right_answers(make_draw(make_model()), problems)
    assert len(stored) >= CONSTANTS["REHEARSED"]
    policy, alone, before = make_model(), make_model(), make_model()
    actors = Actors(policy=policy, tokenizer=tokenizer, reference=None, draw=make_draw(policy))
    train(recipe(), tmp_path, actors, problems, {"rehearsal": stored}, digest="minimal")
    rewards = list(example.train(alone, tokenizer, problems, stored, LetterVerifier()))
    assert len(rewards) == CONSTANTS["STEPS"]
    moved = 0.0
    for own, theirs, first in zip(
        alone.parameters(), policy.parameters(), before.parameters(), strict=True
    ):
        torch.testing.assert_close(own, theirs, rtol=0, atol=1e-6)
        moved = max(moved, float((own - first).detach().abs().max()))
    assert moved > 1e-2
