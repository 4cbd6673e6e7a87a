"""What stored answers are worth by whom they agree with."""

from hypothesis import given
from hypothesis import strategies as st

from dph.presampling.stores.values import distinct_agreement, valued

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
