"""What stored answers weigh: votes, their shuffled control, and who has no say."""

from collections import Counter
from itertools import permutations, product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.recipe.stores import Values
from dph.runs.presample.stores.store import WEIGHTS, ValuedAnswers, majority_vote, shuffled
from dph.runs.presample.stores.values import valued

CLASSES = st.lists(st.sampled_from([0, 1, 2, None]), min_size=1, max_size=9)


def answers(classes, *, texts=None, correct=None, seed=3, problem_id="p"):
    values = valued(classes, correct, answers=len(classes))
    texts = texts or [str(i) for i in range(len(classes))]
    return ValuedAnswers(problem_id=problem_id, values=values, texts=texts, seed=seed)


def vote_by_hand(classes):
    """Answer i wins if at least two are of its class and no class is larger, counted one by one."""

    def size(one):
        return sum(other is not None and other == one for other in classes)

    most = max(size(one) for one in classes)
    return [float(one is not None and size(one) == most >= 2) for one in classes]


def test_every_way_of_four_answers_to_agree_has_the_majority_that_counting_by_hand_finds():
    for classes in product([0, 1, 2, None], repeat=4):
        assert majority_vote(classes) == vote_by_hand(classes)


@given(CLASSES, st.randoms(use_true_random=False))
def test_the_order_of_the_answers_and_the_numbers_of_the_classes_decide_nothing(classes, random):
    order = random.sample(range(len(classes)), len(classes))
    votes = majority_vote(classes)
    assert majority_vote([classes[i] for i in order]) == [votes[i] for i in order]
    renamed = [None if own is None else 2 - own for own in classes]
    assert majority_vote(renamed) == majority_vote(classes)


@given(CLASSES)
def test_who_wins_agrees_with_somebody_and_nobody_agrees_with_more(classes):
    own = answers(classes)
    agreement = WEIGHTS["agreement"](own)
    for vote, worth in zip(WEIGHTS["majority"](own), agreement, strict=True):
        assert vote == (worth > 0 and worth == max(agreement))


def test_where_no_two_agree_nobody_wins_and_a_tie_is_won_by_all():
    assert majority_vote([0, 1, 2, None]) == [0.0] * 4
    assert majority_vote([None, None]) == [0.0, 0.0]
    assert majority_vote([0, 0, 1, 1, 2, None]) == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]


@given(CLASSES, st.integers(0, 2**40), st.text(max_size=5))
def test_shuffled_values_are_the_same_values_whatever_stands_beside_them(classes, seed, name):
    own = answers(classes, seed=seed, problem_id=name)
    for kind, of in (("shuffled", "agreement"), ("shuffled_distinct", "distinct")):
        found = WEIGHTS[kind](own)
        assert Counter(found) == Counter(WEIGHTS[of](own))
        assert found == WEIGHTS[kind](own)


@pytest.mark.parametrize(
    ("kind", "of"), [("shuffled", "agreement"), ("shuffled_distinct", "distinct")]
)
def test_each_control_has_the_values_of_its_own_kind_and_another_order(kind, of):
    """One text drawn thrice, two others, and a result alone: four answers in five agree."""
    texts, classes = ["a", "a", "a", "b", "c", "d"], [0, 0, 0, 0, 0, 1]
    counts = {"agreement": {0.8: 5, 0.0: 1}, "distinct": {2 / 3: 5, 0.0: 1}}
    orders = set()
    for seed in range(60):
        found = WEIGHTS[kind](answers(classes, texts=texts, seed=seed))
        assert Counter(found) == counts[of]
        orders.add(tuple(found))
    assert len(orders) == 6  # the answer that is worth nothing may be each of them


def test_every_order_of_shuffled_values_is_equally_likely_over_seeds_and_over_prompts():
    weights, draws = [0.0, 0.1, 0.2], 1200
    by_seed = Counter(tuple(shuffled(weights, seed=i, problem_id="p")) for i in range(draws))
    by_prompt = Counter(tuple(shuffled(weights, seed=3, problem_id=str(i))) for i in range(draws))
    for found in (by_seed, by_prompt):
        assert set(found) == set(permutations(weights))
        spread = 4 * np.sqrt(draws * (1 / 6) * (5 / 6))  # four standard deviations of a count
        assert all(abs(count - draws / 6) < spread for count in found.values())


def test_right_answers_weigh_one_whoever_agrees_with_them():
    own = answers([0, 0, 1, None], correct=[False, False, True, None])
    assert WEIGHTS["correct"](own) == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("values", get_args(Values))
def test_every_choice_of_a_recipe_has_its_weights(values):
    own = answers([0, 0, 1], correct=[True, False, False])
    assert len(WEIGHTS[values](own)) == 3
    assert set(WEIGHTS) == set(get_args(Values))
