from itertools import product

import numpy as np
import pytest

from dph_corpus.ablation.kneser_ney import KneserNey


def probability(model, *tokens):
    """p(last | those before)."""
    return 2 ** -model.bits(np.array([tokens]))[0, -1]


@pytest.fixture
def model():
    tokens = np.random.default_rng(0).integers(0, 5, (7, 40)) ** 2 % 5
    return KneserNey.learn(tokens, order=3, vocabulary=5)


def test_the_probabilities_of_all_tokens_add_up_to_one_after_any_history(model):
    for history in product(range(5), repeat=2):
        total = sum(probability(model, *history, token) for token in range(5))
        assert total == pytest.approx(1, abs=1e-12), history


def test_bigrams_counted_by_hand():
    """After a b a b a c: bigrams ab 2, ba 2, ac 1; different tokens before a: 1, b: 1, c: 1."""
    a, b, c = 0, 1, 2
    model = KneserNey.learn(np.array([[a, b, a, b, a, c]]), order=2, vocabulary=4)
    discount = 1 / (1 + 2 * 2)  # one bigram seen once, two seen twice
    below = 3 / 3 * 1  # unigrams, each seen before once: their discount is 1 / (1 + 0) = 1
    unigram = 0 / 3 + below * 1 / 4
    assert probability(model, a, b) == pytest.approx(
        (2 - discount) / 3 + discount * 2 / 3 * unigram
    )
    assert probability(model, c, a) == pytest.approx(unigram)  # nothing follows c


def test_a_sequence_is_asked_about_as_if_it_stood_alone(model):
    rows = np.random.default_rng(1).integers(0, 5, (4, 9))
    alone = np.concatenate([model.bits(rows[i : i + 1]) for i in range(4)])
    assert np.array_equal(model.bits(rows), alone)


def test_text_like_what_was_learnt_takes_fewer_bits():
    learnt = np.tile(np.arange(8), (3, 10))
    model = KneserNey.learn(learnt, order=3, vocabulary=8)
    shuffled = np.random.default_rng(0).permutation(learnt[0])[None]
    assert model.bits(learnt).mean() < 1 < 3 < model.bits(shuffled).mean()


def test_keys_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="5-grams of 10000 tokens do not fit 64 bits"):
        KneserNey.learn(np.zeros((1, 9), np.int64), order=5, vocabulary=10_000)
