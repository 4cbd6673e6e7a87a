"""The base model: deterministic, saved whole, and never trained on a puzzle of a set."""

from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dph.errors import ModelError, SettingsError
from dph.records import Outcome, Problem
from lab.worlds.countdown import base_model
from lab.worlds.countdown.base_model import make_corpus, train_base_model
from lab.worlds.countdown.verifier import grade
from lab.worlds.countdown.world import OTHERS, TRAINED, parse_prompt
from lab.worlds.small_model import (
    NO_TARGET,
    new_model,
    target_logprobs,
    train_model,
)
from lab.worlds.world import UNLABELLED

FEW = ((TRAINED, 8), (OTHERS, 4))


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(base_model, "ROWS_PER_STEP", FEW)


@pytest.fixture(scope="module")
def trained(countdown, tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "base"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_model, "ROWS_PER_STEP", FEW)
        train_base_model(countdown, directory, seed=0, steps=2)
    return directory


def rows_of(batch, tokenizer):
    """Prompt and answer of every row of a batch, as text."""
    for piece in batch:
        for ids, targets in zip(piece.input_ids, piece.targets, strict=True):
            asked = int((targets == NO_TARGET).sum()) + 1
            prompt = tokenizer.decode(ids[:asked], skip_special_tokens=True)
            answer = targets[targets != NO_TARGET]
            assert answer[-1] == tokenizer.eos_token_id
            yield prompt, tokenizer.decode(answer, skip_special_tokens=True)


def test_the_same_seed_gives_identical_weights(countdown, trained, tmp_path):
    torch.manual_seed(123)  # the result must not depend on the global random state
    before = torch.random.get_rng_state()
    train_base_model(countdown, tmp_path / "again", seed=0, steps=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    for name in ("model.safetensors", "tokenizer.json", "made_from.json"):
        assert (tmp_path / "again" / name).read_bytes() == (trained / name).read_bytes()


def test_another_seed_gives_other_weights(countdown, trained, tmp_path):
    train_base_model(countdown, tmp_path / "other", seed=1, steps=2)
    weights = (tmp_path / "other" / "model.safetensors").read_bytes()
    assert weights != (trained / "model.safetensors").read_bytes()


def test_the_model_loads_the_usual_way_and_fits_its_tokenizer(trained):
    model = AutoModelForCausalLM.from_pretrained(trained)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    assert model.config.vocab_size == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert 300_000 < model.num_parameters() < 400_000


def test_every_answer_it_learns_is_right_and_no_puzzle_is_of_a_set(countdown, countdown_tokenizer):
    sets = ("train", "in_domain", "cross_domain", UNLABELLED)
    known = {puzzle.key for name in sets for puzzle in countdown.puzzles(name)}
    corpus = make_corpus(countdown, countdown_tokenizer)
    assert corpus.taken == known
    counts = {4: 0, 3: 0}
    for batch in corpus.batches(Random(0), steps=5):
        for prompt, answer in rows_of(batch, countdown_tokenizer):
            puzzle = parse_prompt(prompt)
            assert puzzle.key not in known
            fields = {"numbers": list(puzzle.numbers), "target": puzzle.target}
            asked = Problem(problem_id="p", prompt=prompt, answer=fields)
            assert grade(answer, asked).outcome == Outcome.CORRECT
            counts[len(puzzle.numbers)] += 1
    assert counts == {4: 40, 3: 20}


def test_the_log_probs_of_targets_are_those_of_a_plain_forward(countdown, countdown_tokenizer):
    model = new_model(countdown_tokenizer, seed=0)
    (batch,) = make_corpus(countdown, countdown_tokenizer).batches(Random(0), steps=1)
    rows, targets = batch[0], batch[0].targets
    with torch.no_grad():
        found = target_logprobs(model, rows)
        plain = model(rows.input_ids).logits.log_softmax(-1)
    chosen = [
        plain[place][targets[place]] for place in map(tuple, (targets != NO_TARGET).nonzero())
    ]
    torch.testing.assert_close(found, torch.stack(chosen), rtol=1e-5, atol=1e-5)


def test_training_lowers_the_loss(countdown, countdown_tokenizer):
    corpus = make_corpus(countdown, countdown_tokenizer)
    model = new_model(countdown_tokenizer, seed=0)
    (batch,) = corpus.batches(Random(5), steps=1)

    def loss():
        with torch.no_grad():
            return -torch.cat([target_logprobs(model, rows) for rows in batch]).mean()

    before = loss()
    train_model(model, corpus.batches(Random(0), steps=15), steps=15)
    assert loss() < before - 0.5


def test_progress_counts_every_step_and_a_finished_model_is_kept(countdown, tmp_path):
    counted = []
    train_base_model(countdown, tmp_path / "base", seed=0, steps=2, on_progress=counted.append)
    assert counted == [1, 1]
    stamp = (tmp_path / "base" / "model.safetensors").stat().st_mtime_ns
    train_base_model(countdown, tmp_path / "base", seed=0, steps=2, on_progress=counted.append)
    assert counted == [1, 1, 2]
    assert (tmp_path / "base" / "model.safetensors").stat().st_mtime_ns == stamp


def test_a_directory_with_something_else_is_refused(countdown, trained):
    with pytest.raises(ModelError, match="choose another directory"):
        train_base_model(countdown, trained, seed=0, steps=4)


def test_no_steps_are_refused(countdown, tmp_path):
    with pytest.raises(SettingsError, match="at least 1"):
        train_base_model(countdown, tmp_path / "base", seed=0, steps=0)
