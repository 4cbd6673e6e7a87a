"""What stored answers are worth by whom they agree with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.runs.presample.stores.values import agreement_counts, distinct_agreement, valued

ANSWERS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12)


def classes_of(texts):
    """Texts a to c come to one result, d and e to another, f to none."""
    return [{"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "f": None}[text] for text in texts]


@given(ANSWERS)
def test_drawing_an_answer_again_is_no_new_witness(texts):
    first = dict(zip(texts, distinct_agreement(classes_of(texts), texts), strict=True))
    twice = texts + texts[:1] * 5
    assert distinct_agreement(classes_of(twice), twice) == [first[text] for text in twice]


@given(ANSWERS)
def test_where_all_texts_differ_it_is_the_share_of_the_other_answers(letters):
    texts = [f"{letter}{index}" for index, letter in enumerate(letters)]
    classes = classes_of(letters)
    plain = [value.agreement for value in valued(classes, None, answers=len(texts))]
    assert distinct_agreement(classes, texts) == plain


def test_two_ways_to_one_result_outweigh_one_way_that_is_always_taken():
    texts = ["always"] * 13 + ["this way", "that way"]
    assert distinct_agreement([0] * 13 + [1, 1], texts) == [0.0] * 13 + [0.5, 0.5]


def test_an_answer_without_a_result_agrees_with_nobody():
    assert distinct_agreement([None, None, 0], ["x", "y", "z"]) == [0.0, 0.0, 0.0]


def test_how_often_a_consensus_is_wrong_by_hand():
    groups = {
        "agrees, wrong": valued([0, 0, 1], [False, False, True], answers=3),
        "agrees, right": valued([0, 1, 1], [False, True, True], answers=3),
        "agrees, right too": valued([0, 0, 0], [True] * 3, answers=3),
        "nobody agrees": valued([0, 1, None], [False] * 3, answers=3),
        "no label": valued([0, 0, None], None, answers=3),
    }
    found = agreement_counts(groups)
    assert found["agreed_wrong"] == pytest.approx(1 / 3)  # of the three with a consensus and labels
    assert found["prompts_that_agree"] == pytest.approx(4 / 5)
    assert found["agreement"] == pytest.approx((1 + 1 + 3 + 0 + 1) / 15)
    assert (found["labelled"], found["correct"]) == (4, pytest.approx(6 / 12))


def test_without_labels_or_a_consensus_nothing_is_said_of_wrong_ones():
    alone = {"a": valued([0, 1], [True, False], answers=2)}
    assert agreement_counts(alone)["agreed_wrong"] is None
    assert agreement_counts({"b": valued([0, 0], None, answers=2)})["agreed_wrong"] is None
