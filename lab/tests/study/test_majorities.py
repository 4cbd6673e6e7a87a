"""maj@K in a study: the accuracy of the vote of the first K samples."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from dph.errors import SettingsError
from dph.recipe import resolve_recipe
from dph.records import Outcome, Problem
from dph.runs.evaluate.samples_file import SAMPLES
from dph.tasks.verifiers import make_verifier
from lab.study.execute import majorities
from lab.study.planner import require_rule_fits
from lab.study.settings import BudgetSettings, RuleSettings, metric_names
from lab.study.sites import Site

GOLDS = {"a": "7", "b": "4", "c": "1"}
ANSWERS = {"a": ["5", "5", "7"], "b": ["3", "4", "4"], "c": ["1", "1", "1"]}
"""The vote of three is wrong on a and right on b; of two it is the first of a tie on b."""


@dataclass(frozen=True)
class Plan:
    """As much of a run's plan as a vote asks for."""

    recipe: Any
    sets: Any
    verifier: Any


@pytest.fixture
def plan():
    data = {"train": "t.jsonl", "sets": {"test": {"path": "x.jsonl"}}, "verifier": "number"}
    problems = tuple(
        Problem(problem_id=name, prompt="?", answer={"answer": gold})
        for name, gold in GOLDS.items()
    )
    with ExitStack() as stack:
        yield Plan(
            recipe=resolve_recipe({"model": {"path": "m"}, "data": data}),
            sets={"test": problems},
            verifier=stack.enter_context(make_verifier("number")),
        )


def samples(answers, finished=True, greedy="4"):
    rows = [
        (name, index, text)
        for name, texts in answers.items()
        for index, text in [(-1, greedy), *enumerate(texts)]
    ]
    return pa.Table.from_pylist(
        [
            {
                "set": "test",
                "problem_id": name,
                "sample_index": index,
                "text": text,
                "tokens": 1,
                "finished": finished,
                "outcome": (Outcome.CORRECT if text == GOLDS[name] else Outcome.WRONG).value,
                "reward": 0.0,
                "reason": "",
                "style": None,
            }
            for name, index, text in reversed(rows)
        ],
        schema=SAMPLES,
    )


def test_the_vote_is_the_result_of_most_samples_and_of_equal_ones_the_first(plan):
    (three,) = majorities(plan, samples(ANSWERS), 3)
    assert (three.set, three.metric, three.k, three.problems) == ("test", "maj_at_k", 3, 3)
    assert three.value == pytest.approx(2 / 3)  # b and c
    (two,) = majorities(plan, samples(ANSWERS), 2)
    assert two.value == pytest.approx(1 / 3)  # of 3 and 4 the first
    (one,) = majorities(plan, samples(ANSWERS), 1)
    assert one.value == pytest.approx(1 / 3)


def test_answers_that_were_cut_off_vote_for_nothing(plan):
    (found,) = majorities(plan, samples(ANSWERS, finished=False), 3)
    assert found.value == 0


def test_a_verifier_that_cannot_compare_answers_is_told(plan):
    blind = Plan(recipe=plan.recipe, sets=plan.sets, verifier=_Blind())
    with pytest.raises(SettingsError, match=r"'blind' .* or leave out budget\.votes"):
        list(majorities(blind, samples(ANSWERS), 3))


class _Blind:
    name = "blind"


def test_a_rule_may_choose_by_the_vote_that_the_budget_has():
    assert metric_names("greedy + maj@16") == ("greedy", "maj@16")
    site = Site(name="w", sets=("test",))
    rule = RuleSettings.model_validate({"choose": {"metric": "maj@16"}})
    require_rule_fits(rule, [site], {"w": (1,)}, BudgetSettings(votes=16))
    with pytest.raises(SettingsError, match=r"by maj@16; budget\.votes is not set"):
        require_rule_fits(rule, [site], {"w": (16,)}, BudgetSettings())
    with pytest.raises(SettingsError, match=r"by maj@16; budget\.votes is 8"):
        require_rule_fits(rule, [site], {"w": (16,)}, BudgetSettings(votes=8))


def test_more_votes_than_samples_are_refused():
    with pytest.raises(ValueError, match="need votes <= samples, got 33 and 32"):
        BudgetSettings(votes=33)
    assert BudgetSettings().votes is None
