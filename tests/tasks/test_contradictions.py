"""Identical answers with different verdicts are told, once, and nothing else is."""

import pytest

from dph.records import Outcome
from dph.tasks import agreement as module
from dph.tasks.agreement import contradictions, warn_of_contradictions

RIGHT, WRONG, LATE = Outcome.CORRECT, Outcome.WRONG, Outcome.TIMED_OUT


@pytest.mark.parametrize(
    ("graded", "said"),
    [
        ([], ""),
        ([("p", "4", RIGHT), ("p", "4", RIGHT), ("p", "5", WRONG)], ""),
        ([("p", "4", RIGHT), ("q", "4", WRONG)], ""),  # another problem
        ([("p", "4", RIGHT), ("p", "4", LATE)], ""),  # a busy machine
        ([("p", "4", RIGHT), ("p", "4", WRONG), ("q", "5", WRONG), ("q", "5", WRONG)], "2 of 4"),
    ],
)
def test_only_the_same_answer_to_the_same_problem_counts(graded, said):
    assert contradictions(graded).startswith(said)
    assert bool(contradictions(graded)) is bool(said)


def test_it_is_told_once_for_each_verifier(caplog, monkeypatch):
    monkeypatch.setattr(module, "_TOLD", set())
    for name in ("mine:grade", "mine:grade", "other:grade"):
        warn_of_contradictions(name, [("p", "4", RIGHT), ("p", "4", WRONG)])
    assert [record.args[0] for record in caplog.records] == ["mine:grade", "other:grade"]
