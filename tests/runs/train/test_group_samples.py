"""What an advantage is given of a step's samples."""

from dataclasses import replace

import pytest
import torch

from dph.errors import PoolError
from dph.loss.objectives import AlphaDPG, BayesianBoundaryGate, GroupAdvantage, UniformCorrect
from dph.records import Completion, GradedCompletion, Outcome, Verdict
from dph.runs.presample.pool import BaseCounts
from dph.runs.train.collect import Group
from dph.runs.train.policy_rows import group_samples
from dph.runs.train.rows import PolicyRow


def group(problem_id, *logprobs):
    completions = tuple(
        GradedCompletion(
            completion=Completion(
                problem_id=problem_id,
                sample_index=index,
                token_ids=(5,) * len(values),
                logprobs=values,
                finished=True,
                text="",
            ),
            verdict=Verdict(outcome=Outcome.WRONG, reward=0.0),
        )
        for index, values in enumerate(logprobs)
    )
    return Group(prompt_ids=(3,), completions=completions)


def rows(groups):
    return [
        PolicyRow(
            prompt_ids=group.prompt_ids,
            completion_ids=each.completion.token_ids,
            advantage=0.0,
            old_logprobs=each.completion.logprobs,
        )
        for group in groups
        for each in group.completions
    ]


GROUPS = [group("a", (-1.0, -0.5), (-2.0,)), group("b", (-0.25,) * 4, (-3.0, -1.0, -1.0))]
COUNTS = BaseCounts(correct={"a": 1, "b": 7, "c": 0}, samples=8)


def test_log_probs_are_summed_over_an_answers_tokens():
    samples = group_samples(GROUPS, rows(GROUPS), UniformCorrect(), None)
    assert samples.logprobs.tolist() == [[-1.5, -2.0], [-1.0, -5.0]]
    assert samples.lengths.tolist() == [[2, 1], [4, 3]]
    assert samples.base_correct is None


def test_the_initial_policys_log_probs_are_summed_and_all_there_or_missing():
    scored = [
        replace(row, ref_logprobs=tuple(2 * x for x in row.old_logprobs)) for row in rows(GROUPS)
    ]
    samples = group_samples(GROUPS, scored, AlphaDPG(), COUNTS)
    assert samples.ref_logprobs.tolist() == [[-3.0, -4.0], [-2.0, -10.0]]
    assert samples.base_correct.tolist() == [1, 7]
    scored[1] = replace(scored[1], ref_logprobs=None)
    assert not group_samples(GROUPS, scored, AlphaDPG(), COUNTS).has("ref_logprobs")
    assert group_samples(GROUPS, scored, UniformCorrect(), None).ref_logprobs is None


def test_counts_are_those_of_each_groups_problem():
    samples = group_samples(GROUPS[::-1], rows(GROUPS[::-1]), BayesianBoundaryGate(), COUNTS)
    assert samples.base_correct.tolist() == [7, 1]
    assert samples.base_samples == 8
    assert samples.logprobs is None


def test_an_advantage_of_rewards_alone_costs_nothing():
    assert group_samples(GROUPS, rows(GROUPS), GroupAdvantage(), COUNTS) is None


def test_counts_that_nobody_has_are_asked_for():
    with pytest.raises(PoolError, match="right, which only a pool records: run `dph presample`"):
        group_samples(GROUPS, rows(GROUPS), BayesianBoundaryGate(), None)


def test_an_answer_without_tokens_has_the_length_of_one():
    groups = [group("a", (), (-1.0,))]
    samples = group_samples(groups, rows(groups), UniformCorrect(), None)
    assert samples.lengths.tolist() == [[1, 1]]
    assert torch.equal(samples.logprobs, torch.tensor([[0.0, -1.0]]))
