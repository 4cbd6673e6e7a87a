"""The tilt: exact on a model small enough to write down, whose answers are all there are."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dph.runs.presample.stores.groups import answer_trie, branch_factors, branch_values, tilted

END = 9
FIRST = {1: Fraction(2, 4), 2: Fraction(1, 4), 3: Fraction(1, 4)}
SECOND = {
    1: {1: Fraction(1, 4), 2: Fraction(2, 4), END: Fraction(1, 4)},
    2: {1: Fraction(2, 4), END: Fraction(2, 4)},
    3: {END: Fraction(1)},
}
ANSWERS = [((one, two), FIRST[one] * SECOND[one][two]) for one in FIRST for two in SECOND[one]]
"""Every answer of the model and its probability, a multiple of 1/16."""
WEIGHTS = {(1, 1): 0.9, (1, 2): 0.1, (1, END): 0.4, (2, 1): 0.7, (2, END): 0.2, (3, END): 0.5}


def drawn():
    """16 answers whose shares are exactly the model's probabilities."""
    return [answer for answer, p in ANSWERS for _ in range(int(16 * p))]


def tilted_model(strength, weights=WEIGHTS, **settings):
    """The tilted probability of every answer, from the product over its tokens."""
    answers = drawn()
    trie = answer_trie(answers)
    values = branch_values(trie, [weights[a] for a in answers], **settings)
    factors = branch_factors(trie, values, strength)
    found = {}
    for answer, path in zip(answers, trie.paths, strict=True):
        total = 1.0
        for t, (node, token) in enumerate(zip(path, answer, strict=False)):
            table = FIRST if t == 0 else SECOND[answer[0]]
            ids = list(table)
            logs = np.log([float(p) for p in table.values()])
            numbers, _ = tilted(ids, logs, -math.inf, factors[node])
            total *= math.exp(numbers[ids.index(token)])
        found[answer] = total
    return found, trie, values


EXACT = {"pseudo_answers": 0.0, "floor": 0.0}


def test_at_strength_one_the_tokens_multiply_to_the_answers_reweighted_by_their_worth():
    found, _, _ = tilted_model(1.0, **EXACT)
    mean = sum(float(p) * WEIGHTS[answer] for answer, p in ANSWERS)
    for answer, p in ANSWERS:
        assert found[answer] == pytest.approx(float(p) * WEIGHTS[answer] / mean, rel=1e-12)
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("strength", [0.5, 2.0, 4.0])
def test_at_another_strength_they_multiply_to_its_power_over_the_sums_along_the_answer(strength):
    found, _, _ = tilted_model(strength, **EXACT)
    mean = sum(float(p) * WEIGHTS[answer] for answer, p in ANSWERS)
    below = {
        one: sum(float(p) * WEIGHTS[one, two] for two, p in SECOND[one].items()) for one in FIRST
    }
    root = sum(float(p) * (below[one] / mean) ** strength for one, p in FIRST.items())
    for (one, two), p in ANSWERS:
        inside = sum(
            float(q) * (WEIGHTS[one, v] / below[one]) ** strength for v, q in SECOND[one].items()
        )
        wanted = float(p) * (WEIGHTS[one, two] / mean) ** strength / (root * inside)
        assert found[one, two] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("strength", [0.5, 4.0])
def test_every_node_is_the_best_trade_of_value_and_distance(strength):
    """Q maximises strength E_q[log V] - KL(q || p0): no other distribution does better."""
    found, trie, values = tilted_model(strength, **EXACT)
    p0 = np.array([float(p) for p in FIRST.values()])
    log_values = np.log([values[trie.children[0][token]] for token in FIRST])
    q = np.array([sum(p for a, p in found.items() if a[0] == token) for token in FIRST])

    def gain(distribution):
        kl = (distribution * np.log(distribution / p0)).sum()
        return strength * (distribution * log_values).sum() - kl

    for step in itertools.product([-1e-3, 0, 1e-3], repeat=2):
        other = q + np.array([*step, -sum(step)])
        assert gain(other) <= gain(q)


def test_at_strength_zero_nothing_changes():
    found, _, _ = tilted_model(0.0)
    for answer, p in ANSWERS:
        assert found[answer] == pytest.approx(float(p), rel=1e-12)
    trie = answer_trie(drawn())
    factors = branch_factors(trie, branch_values(trie, [WEIGHTS[a] for a in drawn()]), 0.0)
    assert {factor for node in factors for factor in node.values()} == {0.0}


def test_answers_of_equal_worth_are_left_alone_at_any_strength():
    found, _, _ = tilted_model(4.0, dict.fromkeys(WEIGHTS, 0.3))
    for answer, p in ANSWERS:
        assert found[answer] == pytest.approx(float(p), rel=1e-12)


def test_values_are_drawn_towards_the_parents_by_one_answer_and_never_below_the_floor():
    answers, weights = [(1, END), (1, END), (2, END), (2, 3)], [1.0, 0.0, 0.0, 0.0]
    trie = answer_trie(answers)
    values = branch_values(trie, weights)
    one, two = trie.children[0][1], trie.children[0][2]
    assert values[0] == 1 / 4
    assert values[one] == pytest.approx((1 + 1 / 4) / 3)
    assert values[two] == pytest.approx((0 + 1 / 4) / 3)
    assert values[trie.children[two][3]] == pytest.approx((0 + 1 / 12) / 2)
    assert branch_values(trie, [0.0] * 4).min() == 0.02


def test_tokens_that_no_answer_takes_keep_their_shares_among_themselves():
    factors = {5: math.log(3.0)}
    p0 = np.array([0.2, 0.3, 0.1])
    numbers, tail = tilted((5, 6, 7), np.log(p0), math.log(0.4), factors)
    total = 3 * 0.2 + 0.3 + 0.1 + 0.4
    np.testing.assert_allclose(np.exp(numbers), np.array([0.6, 0.3, 0.1]) / total, rtol=1e-12)
    assert math.exp(tail) == pytest.approx(0.4 / total)


def test_a_branch_without_any_value_gives_no_direction():
    trie = answer_trie([(1, 2), (1, 3), (4,)])
    values = branch_values(trie, [0.0, 0.0, 1.0], **EXACT)
    factors = branch_factors(trie, values, 2.0)
    assert factors[0][1] == -math.inf
    assert set(factors[trie.children[0][1]].values()) == {0.0}


def test_a_factor_is_a_branchs_value_over_that_of_the_node_it_leaves():
    """Tokens that nobody drew have the factor 1: right up to a constant is not enough."""
    answers, weights = [(1, END), (1, END), (2, END)], [0.4, 0.4, 0.1]
    trie = answer_trie(answers)
    factors = branch_factors(trie, branch_values(trie, weights, **EXACT), 2.0)
    assert math.exp(factors[0][1]) == pytest.approx((0.4 / 0.3) ** 2)
    assert math.exp(factors[0][2]) == pytest.approx((0.1 / 0.3) ** 2)
    equal = branch_factors(trie, branch_values(trie, [0.3] * 3), 4.0)
    assert all(abs(factor) < 1e-12 for node in equal for factor in node.values())
