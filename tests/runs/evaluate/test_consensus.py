"""What agreement is worth, on planted answers whose numbers can be counted by hand."""

import numpy as np
import pytest

from dph.runs.evaluate.consensus import (
    Answered,
    Labelled,
    Worth,
    agreement_shares,
    consensus_accuracy,
    worth_of_agreement,
)


def labelled(classes, texts, right, *, greedy):
    return Labelled(
        classes=classes, texts=tuple(texts), right=tuple(map(bool, right)), greedy=greedy
    )


TWO_WAYS = labelled((0, 0, 1, None), "abcd", (1, 1, 0, 0), greedy=False)
"""Two texts come to the right result, greedy does not."""
ONE_TEXT = labelled((0, 0, 0, 1), "aaab", (0, 0, 0, 1), greedy=True)
"""The same wrong text three times: a consensus of answers, none of texts."""
TIE = labelled((0, 1, 1, 0), "abcd", (0, 1, 1, 0), greedy=True)
"""Two and two: the first that was drawn, which is wrong."""
ALONE = labelled((0, 1, None, 2), "abcd", (0, 0, 0, 1), greedy=True)
"""Nobody agrees with anybody."""
GROUPS = (TWO_WAYS, ONE_TEXT, TIE, ALONE)


def test_the_consensus_is_what_most_answers_or_most_texts_came_to():
    assert [one.consensus("answers") for one in GROUPS] == [0, 0, 0, None]
    assert [one.consensus("texts") for one in GROUPS] == [0, None, 0, None]
    assert [one.consensus_is_right("answers") for one in GROUPS] == [True, False, False, None]


def test_a_text_that_was_drawn_twice_has_one_vote():
    group = Answered(classes=(0, 0, 0, 1, 1), texts=("a", "a", "a", "b", "c"))
    assert (group.consensus("answers"), group.consensus("texts")) == (0, 1)


def test_accuracies_are_means_over_the_prompts_with_a_consensus():
    found = consensus_accuracy(GROUPS, seed=0)
    assert (found["prompts"], found["greedy"]["mean"]) == (4, 3 / 4)
    assert found["sampled"]["mean"] == (2 / 4 + 1 / 4 + 2 / 4 + 1 / 4) / 4
    answers, texts = found["answers"], found["texts"]
    assert (answers["share"]["mean"], texts["share"]["mean"]) == (3 / 4, 2 / 4)
    assert (answers["prompts"], texts["prompts"]) == (3, 2)
    assert answers["accuracy"]["mean"] == 1 / 3
    assert answers["greedy"]["mean"] == 2 / 3
    assert answers["difference"]["mean"] == pytest.approx(-1 / 3)
    assert texts["difference"]["mean"] == 0.0
    shares = agreement_shares(GROUPS, seed=0)
    assert shares["texts"] == texts["share"]


def test_the_interval_of_the_difference_is_that_of_pairs():
    # Right where greedy is wrong on 20 of 40 prompts, both right on the others: a mean of 1/2 of
    # numbers 0 and 1, whose bootstrap has a standard deviation of sqrt(1/4 / 40) = 0.079.
    both = labelled((0, 0), "ab", (1, 1), greedy=True)
    better = labelled((0, 0), "ab", (1, 1), greedy=False)
    found = consensus_accuracy([both, better] * 20, seed=0)["texts"]["difference"]
    assert found["mean"] == 0.5
    half = 1.96 * np.sqrt(0.25 / 40)
    assert found["hi"] - found["lo"] == pytest.approx(2 * half, rel=0.1)


def test_where_nobody_agrees_there_is_nothing_to_compare():
    found = consensus_accuracy([ALONE, ALONE], seed=0)["answers"]
    assert (found["share"]["mean"], found["accuracy"], found["difference"]) == (0.0, None, None)


BETTER = labelled((0, 0), "ab", (1, 1), greedy=False)


@pytest.mark.parametrize(
    ("groups", "counted", "worth"),
    [
        ([BETTER] * 10, "texts", Worth.ABOVE),
        ([TIE] * 10, "texts", Worth.NOT_ABOVE),
        ([labelled((0, 0), "ab", (1, 1), greedy=True)] * 10, "answers", Worth.NOT_ABOVE),
        ([BETTER, TIE], "answers", Worth.NOT_ABOVE),  # an interval from -1 to 1
        ([ONE_TEXT] * 10, "texts", Worth.ONE_TEXT),
        ([ONE_TEXT] * 10, "answers", Worth.NOT_ABOVE),
        ([ALONE] * 10, "texts", Worth.NONE),
        ([ALONE] * 10, "answers", Worth.NONE),
    ],
)
def test_the_verdict_follows_from_the_interval_and_the_shares(groups, counted, worth):
    accuracy = consensus_accuracy(groups, seed=0)
    shares = agreement_shares(groups, seed=0)
    assert worth_of_agreement(accuracy, shares, counted=counted) is worth


def test_prompts_that_agree_without_labels_that_do_are_not_trusted():
    accuracy = consensus_accuracy([ALONE], seed=0)
    shares = agreement_shares([BETTER], seed=0)
    assert worth_of_agreement(accuracy, shares, counted="texts") is Worth.NOT_ABOVE
