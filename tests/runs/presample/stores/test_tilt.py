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


# Trajectories: the policy chooses one token, a tool answers, the policy chooses another.

TOOL = {1: {11: Fraction(1)}, 2: {12: Fraction(2, 4), 13: Fraction(2, 4)}}
"""What the tool says to the first token: always the same to 1, one of two to 2."""
CHOSEN = {1: Fraction(2, 4), 2: Fraction(2, 4)}
LAST = {5: Fraction(1, 4), 6: Fraction(3, 4)}
TRAJECTORIES = {
    (one, said, two): CHOSEN[one] * TOOL[one][said] * LAST[two]
    for one in CHOSEN
    for said in TOOL[one]
    for two in LAST
}
WORTH = dict(zip(TRAJECTORIES, (0.9, 0.1, 0.4, 0.7, 0.2, 0.5), strict=True))


def mean_worth(beginning):
    """The expected worth of trajectories that begin so."""
    some = {t: p for t, p in TRAJECTORIES.items() if t[: len(beginning)] == beginning}
    return sum(float(p) * WORTH[t] for t, p in some.items()) / float(sum(some.values()))


def test_of_a_trajectory_the_policys_tokens_are_tilted_and_the_tools_answers_stay():
    rows = [t for t, p in TRAJECTORIES.items() for _ in range(int(16 * p))]
    trie = answer_trie(rows, [(True, False, True)] * len(rows))
    values = branch_values(trie, [WORTH[t] for t in rows], **EXACT)
    factors = branch_factors(trie, values, 1.0)
    assert [len(trie.children[node]) for node in trie.inner] == [2, 2, 2, 2]
    found = {}
    for row, path in zip(rows, trie.paths, strict=True):
        assert path[1] not in trie.inner  # the tool's answer is nobody's choice
        total = float(TOOL[row[0]][row[1]])
        for place, table in ((0, CHOSEN), (2, LAST)):
            ids = list(table)
            logs = np.log([float(p) for p in table.values()])
            numbers, _ = tilted(ids, logs, -math.inf, factors[path[place]])
            total *= math.exp(numbers[ids.index(row[place])])
        found[row] = total
    assert sum(found.values()) == pytest.approx(1)
    for row, total in found.items():
        # p0(y) w(y) / E[w], but for the luck of the tool's answer, which nobody can tilt.
        luck = mean_worth(row[:2]) / mean_worth(row[:1])
        wanted = float(TRAJECTORIES[row]) * WORTH[row] / mean_worth(()) / luck
        assert total == pytest.approx(wanted, rel=1e-12)
        assert row[0] == 2 or luck == pytest.approx(1)


def test_the_only_answer_of_a_tool_has_the_value_of_the_call():
    rows, weights = [(1, 7, 8, 5), (1, 7, 8, 5), (2, 5)], [1.0, 0.0, 0.0]
    trie = answer_trie(rows, [(True, False, False, True)] * 2 + [(True, True)])
    values = branch_values(trie, weights)
    call, first, second, end = trie.paths[0][1:]
    assert values[call] == pytest.approx((1 + 1 / 3) / 3)
    assert values[first] == values[second] == values[call]
    assert values[end] == pytest.approx((1 + values[call]) / 3)


def test_a_token_that_a_tool_said_and_the_policy_wrote_is_one_branch():
    """After the same text a tool may go on, or have ended: the policy's tokens alone count."""
    rows = [(1, 7, 7, 5), (1, 7, 7, 6), (1, 7, 5)]
    written = [(True, False, False, True), (True, False, True, True), (True, False, True)]
    trie = answer_trie(rows, written)
    node = trie.paths[0][2]
    assert trie.children[node] == {7: trie.paths[1][3], 5: trie.paths[2][3]}
    assert trie.paths[0][3] == trie.paths[1][3]
