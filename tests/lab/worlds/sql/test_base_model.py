"""The base model: deterministic, saved whole, and never trained on a test question."""

from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dph.errors import ModelError, SettingsError
from dph.lab.worlds.small_model import NO_TARGET, new_model, packed_logprobs, train_model
from dph.lab.worlds.sql import base_model
from dph.lab.worlds.sql.base_model import draw_corpus, train_base_model


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


def test_no_test_question_is_trained_on(world, world_tokenizer):
    corpus = draw_corpus(world, world_tokenizer, seed=0)
    trained_on = {question.prompt for question in corpus.questions}
    assert len(trained_on) == 200
    assert trained_on.isdisjoint(world.prompts("in_domain") + world.prompts("cross_domain"))


def test_a_batch_holds_an_answer_by_every_annotator_to_every_question(world, world_tokenizer):
    corpus = draw_corpus(world, world_tokenizer, seed=0)
    (batch,) = corpus.batches(Random(0), steps=1)
    ends = sum(int((rows.targets == world_tokenizer.eos_token_id).sum()) for rows in batch)
    assert ends == 5 * 40
    labels = torch.cat([rows.targets[rows.targets != NO_TARGET] for rows in batch])
    for annotator in world.annotators:
        label = world_tokenizer.convert_tokens_to_ids(f"{annotator.style}:")
        assert int((labels == label).sum()) == 34


def test_training_lowers_the_loss(world, world_tokenizer):
    corpus = draw_corpus(world, world_tokenizer, seed=0)
    model = new_model(world_tokenizer, seed=0)
    (batch,) = corpus.batches(Random(5), steps=1)

    def loss():
        with torch.no_grad():
            return -torch.cat([packed_logprobs(model, rows) for rows in batch]).mean()

    before = loss()
    train_model(model, corpus.batches(Random(0), steps=12), steps=12)
    assert loss() < before - 0.5


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
