"""How often a store's consensus is right, by hand."""

import pytest

from dph.runs.presample.stores.store import Vote, store_vote, vote
from dph.runs.presample.stores.values import agreement_counts, distinct_agreement, valued
from small_stores import write_store_of
from tiny_models import build_model


def weights_of(groups, texts):
    return {
        name: distinct_agreement([v.answer_class for v in group], texts[name])
        for name, group in groups.items()
    }


def test_the_consensus_is_what_most_texts_agree_on_not_what_most_answers_do():
    groups = {"a": valued([0, 0, 0, 1, 1], [False] * 3 + [True] * 2, answers=5)}
    texts = {"a": ["again", "again", "again", "this way", "that way"]}
    assert vote(groups, weights_of(groups, texts)) == Vote(
        prompts=1, share=1.0, right=1.0, answers_right=2 / 5
    )
    assert agreement_counts(groups)["agreed_wrong"] == 1.0  # where every answer has a vote


def test_share_and_accuracy_by_hand():
    groups = {
        "agree, right": valued([0, 0, 1], [True, True, False], answers=3),
        "agree, wrong": valued([0, 1, 1], [True, False, False], answers=3),
        "nobody agrees": valued([0, 1, 2], [True, False, False], answers=3),
        "no results": valued([None] * 3, [False] * 3, answers=3),
        "no label": valued([0, 0, 1], None, answers=3),
    }
    texts = {name: ["x", "y", "z"] for name in groups}
    assert vote(groups, weights_of(groups, texts)) == Vote(
        prompts=4, share=2 / 4, right=1 / 2, answers_right=4 / 12
    )


def test_of_results_that_weigh_the_same_each_counts_its_part():
    groups = {"tie": valued([0, 0, 1, 1], [True, True, False, False], answers=4)}
    found = vote(groups, weights_of(groups, {"tie": list("abcd")}))
    assert (found.share, found.right) == (1.0, 0.5)


def test_without_a_consensus_nothing_is_said_of_its_accuracy():
    groups = {"alone": valued([0, 1], [True, False], answers=2)}
    found = vote(groups, weights_of(groups, {"alone": ["a", "b"]}))
    assert found == Vote(prompts=1, share=0.0, right=None, answers_right=0.5)


@pytest.mark.parametrize(("correct", "right"), [([True, True, False], 1.0), ([False] * 3, 0.0)])
def test_a_store_with_labels_has_a_vote(tmp_path, correct, right):
    path = write_store_of(build_model(), tmp_path / "store", correct=correct)
    found = store_vote(path, values="agreement")
    assert found == Vote(
        prompts=8, share=1.0, right=right, answers_right=pytest.approx(right * 2 / 3)
    )


def test_a_store_without_labels_has_none(tmp_path):
    path = write_store_of(build_model(), tmp_path / "store")
    assert store_vote(path, values="agreement") is None
