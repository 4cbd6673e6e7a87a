from random import Random

import pytest
import torch

from dph.records import Outcome, Problem
from lab.worlds.countdown import base_model
from lab.worlds.countdown.base_model import make_corpus
from lab.worlds.countdown.kind import MAX_TOKENS
from lab.worlds.countdown.verifier import grade
from lab.worlds.countdown.world import OTHERS, TRAINED, draw_puzzle, parse_prompt
from lab.worlds.small_model import NO_TARGET, new_model, target_logprobs, train_model
from lab.worlds.world import UNLABELLED

FEW = ((TRAINED, 8), (OTHERS, 4))


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(base_model, "ROWS_PER_STEP", FEW)


def rows_of(batch, tokenizer):
    """Prompt and answer of every row of a batch, as text."""
    for piece in batch:
        for ids, targets in zip(piece.input_ids, piece.targets, strict=True):
            asked = int((targets == NO_TARGET).sum()) + 1
            prompt = tokenizer.decode(ids[:asked], skip_special_tokens=True)
            answer = targets[targets != NO_TARGET]
            assert answer[-1] == tokenizer.eos_token_id
            yield prompt, tokenizer.decode(answer, skip_special_tokens=True)


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


@pytest.mark.parametrize(("domain", "prompt_tokens", "tokens"), [(TRAINED, 8, 18), (OTHERS, 7, 12)])
def test_decoding_gives_back_every_prompt_and_answer(
    countdown_tokenizer, domain, prompt_tokens, tokens
):
    rng = Random(0)
    for _ in range(50):
        puzzle, derivation = draw_puzzle(domain, rng)
        asked = countdown_tokenizer(puzzle.prompt)["input_ids"]
        said = countdown_tokenizer(derivation, add_special_tokens=False)["input_ids"]
        assert (len(asked), len(said) + 1) == (prompt_tokens, tokens)
        for ids, text in ((asked, puzzle.prompt), (said, derivation)):
            assert countdown_tokenizer.unk_token_id not in ids
            assert countdown_tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokens <= MAX_TOKENS
