import numpy as np
import torch

from lab.worlds import fused_llama as imitation
from lab.worlds.fused_llama import LESSONS_AT_ONCE, LONGEST_BESIDE, batches_of, imitate
from lab.worlds.lessons import Answerer, Lesson, answers_of
from lab.worlds.small_model import new_model

EOS = 2


def lesson(length, first=20):
    """A lesson whose row has ``length`` tokens with the end of its one answer."""
    answers = answers_of([Answerer([5, 40, EOS], [[[5, 41, EOS]]], [(0.9, 0.1)])])
    return Lesson((1, 7), tuple(range(first, first + length - 3)), answers)


def test_every_lesson_is_in_one_batch_beside_others_of_similar_length():
    lengths = [*[9] * 6, *range(30, 60, 2), 90, 91]
    batches = batches_of([lesson(n) for n in reversed(lengths)], np.random.default_rng(0), pad_id=0)
    rows = [int((row != 0).sum()) + 1 for batch in batches for row in batch.ids]
    assert sorted(rows) == sorted(lengths)
    for batch in batches:
        of_batch = [int((row != 0).sum()) + 1 for row in batch.ids]
        assert len(of_batch) <= LESSONS_AT_ONCE
        assert max(of_batch) <= LONGEST_BESIDE * min(of_batch)


def trained(tokenizer, steps, seed=0):
    model = new_model(tokenizer, seed=0)
    rng = np.random.default_rng(seed)
    imitate(model, iter(steps), count=len(steps), rng=rng)
    return model


def test_a_model_comes_to_say_what_is_likely_as_often_as_it_is(world_tokenizer):
    model = trained(world_tokenizer, [[lesson(6), lesson(6, first=30)]] * 60)
    with torch.no_grad():
        prompt = torch.tensor([[1, 7, 20, 21, 22, 5]])
        said = model(prompt).logits[0, -1].softmax(-1)
    assert abs(float(said[40]) - 0.9) < 0.03
    assert abs(float(said[41]) - 0.1) < 0.03


def test_batches_side_by_side_give_the_weights_of_one_after_the_other(world_tokenizer, monkeypatch):
    steps = [[lesson(n, first=20 + i) for i, n in enumerate((6, 12, 24, 48, 90))]] * 4
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(imitation, "MOST_THREADS", threads)
        monkeypatch.setattr(imitation.os, "cpu_count", lambda: 4)
        found.append(trained(world_tokenizer, steps).state_dict())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
