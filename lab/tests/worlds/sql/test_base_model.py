from collections import Counter

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from lab.worlds.fused_llama import FusedLlama, lesson_batch
from lab.worlds.small_model import new_model
from lab.worlds.sql import base_model
from lab.worlds.sql.base_model import (
    QUESTIONS_PER_STEP,
    SHARES,
    SUMS_PER_STEP,
    draw_pool,
    lesson_kind,
    lessons_of_steps,
    train_base_model,
)


@pytest.fixture(autouse=True)
def small_pool(monkeypatch):
    monkeypatch.setattr(base_model, "POOL", 200)


def test_training_lowers_the_distance_to_the_annotators(world, world_tokenizer, tmp_path):
    (lessons,) = lessons_of_steps(world, world_tokenizer, seed=5, steps=1)
    batch = lesson_batch(lessons, np.random.default_rng(0), pad_id=0)

    def cross_entropy(model):
        with torch.no_grad():
            logprobs = FusedLlama(model).logits(batch).log_softmax(-1)
        likely = logprobs[batch.target_rows, batch.target_ids] * batch.target_chances
        return float(-likely.sum() / len(batch.where))

    train_base_model(world, tmp_path / "base", seed=0, steps=12)
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    assert cross_entropy(trained) < cross_entropy(new_model(world_tokenizer, seed=0)) - 0.5


@pytest.fixture(scope="module")
def asked(world, world_tokenizer):
    """The prompts of 100 steps by their kind, each with its schema, in the order they come."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_model, "POOL", 200)
        pool = draw_pool(world, seed=0)
        steps = list(lessons_of_steps(world, world_tokenizer, seed=0, steps=100))
    kinds = {tuple(world_tokenizer(q.prompt)["input_ids"]): lesson_kind(q) for q in pool}
    prompts = [(*x.stem, *x.prompt) for step in steps for x in step if len(x.stem) > 1]
    assert {len(step) for step in steps} == {QUESTIONS_PER_STEP + SUMS_PER_STEP}
    return [(kinds[prompt], prompt) for prompt in prompts]


def test_every_kind_of_question_is_asked_in_its_share(asked):
    assert sum(SHARES.values()) == pytest.approx(1)
    assert len(asked) == 100 * QUESTIONS_PER_STEP
    counts = Counter(kind for kind, _ in asked)
    for kind, share in SHARES.items():
        # Five standard deviations of a mean of coin flips.
        spread = 5 * (share * (1 - share) / len(asked)) ** 0.5
        assert counts[kind] / len(asked) == pytest.approx(share, abs=spread)


def test_no_question_comes_twice_before_all_of_its_kind_were_had(asked):
    for kind in SHARES:
        prompts = [prompt for of_kind, prompt in asked if of_kind == kind]
        different = len(set(prompts))
        assert len(prompts) > different
        assert len(set(prompts[:different])) == different


def test_no_test_question_is_taught(asked, world, world_tokenizer):
    tests = world.prompts("in_domain") + world.prompts("cross_domain")
    assert {prompt for _, prompt in asked}.isdisjoint(
        tuple(ids) for ids in world_tokenizer(tests)["input_ids"]
    )
