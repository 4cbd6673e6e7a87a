"""The base model: deterministic, saved whole, and never trained on a test question."""

from collections import Counter

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dph.errors import ModelError, SettingsError
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


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "base"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_model, "POOL", 200)
        train_base_model(world, directory, seed=0, steps=3)
    return directory


def test_the_same_seed_gives_identical_weights(world, trained, tmp_path):
    torch.manual_seed(123)  # the result must not depend on the global random state
    before = torch.random.get_rng_state()
    train_base_model(world, tmp_path / "again", seed=0, steps=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    for name in ("model.safetensors", "tokenizer.json", "made_from.json"):
        assert (tmp_path / "again" / name).read_bytes() == (trained / name).read_bytes()


def test_another_seed_gives_other_weights(world, trained, tmp_path):
    train_base_model(world, tmp_path / "other", seed=1, steps=3)
    weights = (tmp_path / "other" / "model.safetensors").read_bytes()
    assert weights != (trained / "model.safetensors").read_bytes()


def test_the_model_loads_the_usual_way_and_fits_its_tokenizer(trained):
    model = AutoModelForCausalLM.from_pretrained(trained)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    assert model.config.vocab_size == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert 300_000 < model.num_parameters() < 450_000


def test_no_test_question_is_in_the_pool(world):
    pool = {question.prompt for question in draw_pool(world, seed=0)}
    assert len(pool) == 200
    assert pool.isdisjoint(world.prompts("in_domain") + world.prompts("cross_domain"))


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


def test_progress_counts_every_step_and_a_finished_model_is_kept(world, tmp_path):
    counted = []
    train_base_model(world, tmp_path / "base", seed=0, steps=2, on_progress=counted.append)
    assert counted == [1, 1]
    stamp = (tmp_path / "base" / "model.safetensors").stat().st_mtime_ns
    train_base_model(world, tmp_path / "base", seed=0, steps=2, on_progress=counted.append)
    assert counted == [1, 1, 2]
    assert (tmp_path / "base" / "model.safetensors").stat().st_mtime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


def test_a_directory_with_something_else_is_refused(world, trained, tmp_path):
    with pytest.raises(ModelError, match="choose another directory"):
        train_base_model(world, trained, seed=0, steps=4)
    (tmp_path / "mine").mkdir()
    with pytest.raises(ModelError, match="made from None"):
        train_base_model(world, tmp_path / "mine", seed=0, steps=4)


def test_no_steps_are_refused(world, tmp_path):
    with pytest.raises(SettingsError, match="at least 1"):
        train_base_model(world, tmp_path / "base", seed=0, steps=0)
