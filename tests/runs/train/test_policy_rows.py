from dataclasses import replace
from math import exp

import pytest

from dph.errors import DataError
from dph.loss.objectives import boundary_gate, make_objective
from dph.model.forward.logprobs import score_completions
from dph.recipe import ObjectiveSettings
from dph.records import Completion, GradedCompletion, Outcome, Verdict
from dph.runs.presample.pool import BaseCounts
from dph.runs.train.collect import Group
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import split_minibatches
from dph.runs.train.updating import TrainingForward

NOBODY = Scorers(old=None, reference=None)


def rows_of(groups, forward, scorers=NOBODY, *, base=None, **settings):
    settings = ObjectiveSettings(**settings)
    return policy_rows(
        groups,
        forward,
        scorers,
        objective=make_objective(settings),
        settings=settings,
        base=base,
    )


def graded(ids, reward, *, finished=True, logprobs=None, outcome=None):
    completion = Completion(
        problem_id="p",
        sample_index=0,
        token_ids=ids,
        logprobs=logprobs or (-1.0,) * len(ids),
        finished=finished,
        text="",
    )
    outcome = outcome or (Outcome.CORRECT if reward else Outcome.WRONG)
    return GradedCompletion(completion=completion, verdict=Verdict(outcome=outcome, reward=reward))


GROUPS = [
    Group(prompt_ids=(3, 4), completions=(graded((5, 1), 1.0), graded((6, 6, 1), 0.0))),
    Group(
        prompt_ids=(3, 5), completions=(graded((5, 5, 5), 0.0, finished=False), graded((7,), 0.0))
    ),
]


@pytest.fixture
def forward(make_model):
    return TrainingForward(
        model=make_model(),
        pad_id=0,
        temperature=1.0,
        dtype="float32",
        token_budget=99,
        max_tokens=3,
    )


def scores(model, row):
    return score_completions(
        model,
        [row.prompt_ids],
        [row.completion_ids],
        temperature=1.0,
        pad_id=0,
        token_budget=99,
        dtype="float32",
    )[0]


def test_rows_come_group_by_group_with_the_samplers_log_probs(forward):
    rows = rows_of(GROUPS, forward)
    assert [[row.completion_ids for row in group] for group in rows.groups] == [
        [(5, 1), (6, 6, 1)],
        [(5, 5, 5), (7,)],
    ]
    assert [[row.advantage for row in group] for group in rows.groups][1] == [0, 0]
    assert rows.groups[0][0].advantage == -rows.groups[0][1].advantage > 0
    assert rows.groups[0][1].old_logprobs == (-1.0, -1.0, -1.0)
    assert rows.gap is None


def test_recomputation_is_of_rows_that_move_the_loss_only_and_the_gap_is_theirs(forward):
    scorers = Scorers(old=forward.model, reference=None)
    rows = rows_of(GROUPS, forward, scorers)
    signal, flat = rows.groups
    differences = []
    for row in signal:
        expected = scores(forward.model, row)
        assert row.old_logprobs == pytest.approx(expected, abs=1e-5)
        differences += [abs(-1.0 - x) for x in expected]
    assert [row.old_logprobs for row in flat] == [(-1.0,) * 3, (-1.0,)]
    assert rows.gap.mean == pytest.approx(sum(differences) / 5, abs=1e-5)
    assert rows.gap.largest == pytest.approx(max(differences), abs=1e-5)


def test_the_reference_scores_all_rows_when_a_penalty_acts_on_all(forward, make_model):
    reference = make_model(seed=1)
    scorers = Scorers(old=None, reference=reference)
    rows = rows_of(GROUPS, forward, scorers, kl_coefficient=0.1)
    for row in (row for group in rows.groups for row in group):
        assert row.ref_logprobs == pytest.approx(scores(reference, row), abs=1e-5)


def test_cut_off_completions_are_masked_on_request_and_not_scored(forward, make_model):
    scorers = Scorers(old=None, reference=make_model(seed=1))
    rows = rows_of(GROUPS, forward, scorers, kl_coefficient=0.1, overlong_filter=True)
    flat = [row for group in rows.groups for row in group]
    assert [row.masked for row in flat] == [False, False, True, False]
    assert [row.ref_logprobs is None for row in flat] == [False, False, True, False]


def test_rows_of_the_first_of_several_mini_batches_need_not_be_scored_before_it(forward):
    groups = [
        Group(prompt_ids=(3, 4 + i), completions=(graded((5, 1), 1.0), graded((6, 1), 0.0)))
        for i in range(5)
    ]
    for minibatches, kept in ((1, [0, 1, 2, 3, 4]), (2, [0, 2, 4]), (3, [0, 3]), (9, [0])):
        scorers = Scorers(old=forward.model, reference=None, first_of=minibatches)
        found = rows_of(groups, forward, scorers).groups
        first = split_minibatches(found, {}, minibatches)[0].groups
        assert first == tuple(found[i] for i in kept)
        for group in found:
            for row in group:
                expected = (-1.0, -1.0) if group in first else scores(forward.model, row)
                assert row.old_logprobs == pytest.approx(expected, abs=1e-5)


def test_a_sample_that_could_not_be_graded_shapes_nothing_and_is_no_part_of_the_loss(forward):
    group = Group(
        prompt_ids=(3, 4),
        completions=(
            graded((5, 1), 1.0),
            graded((6, 1), 0.0),
            graded((7, 1), 0.0, outcome=Outcome.CRASHED),
        ),
    )
    (rows,) = rows_of([group], forward).groups
    (alone,) = rows_of([replace(group, completions=group.completions[:2])], forward).groups
    assert [row.advantage for row in rows] == [*(row.advantage for row in alone), 0.0]
    assert [row.masked for row in rows] == [False, False, True]


def test_a_group_with_an_ungradable_gold_has_no_advantage_and_no_weight(forward):
    outcomes = [Outcome.CORRECT, Outcome.CORRECT, Outcome.BAD_GOLD, Outcome.CRASHED]
    group = Group(
        prompt_ids=(3, 4),
        completions=tuple(
            graded((5 + i, 1), float(outcome is Outcome.CORRECT), outcome=outcome)
            for i, outcome in enumerate(outcomes)
        ),
    )
    assert not group.gradable
    assert not group.has_signal
    (rows,) = rows_of([group], forward).groups
    assert [row.advantage for row in rows] == [0.0] * 4
    assert all(row.masked for row in rows)


def test_crashes_beside_equal_rewards_are_no_signal():
    crashed = graded((7, 1), 0.0, outcome=Outcome.CRASHED)
    group = Group(prompt_ids=(3,), completions=(graded((5, 1), 1.0), graded((6, 1), 1.0), crashed))
    assert group.gradable
    assert not group.has_signal


def test_an_advantage_may_read_the_log_probs_of_the_samples_that_were_graded(forward):
    drawn = [(-1.0, -2.0), (-0.5, -0.5), (-4.0, -5.0), (-9.0, -9.0)]
    outcomes = [Outcome.CORRECT, Outcome.WRONG, Outcome.CORRECT, Outcome.CRASHED]
    group = Group(
        prompt_ids=(3, 4),
        completions=tuple(
            graded((5, 1), float(o is Outcome.CORRECT), logprobs=logprobs, outcome=o)
            for logprobs, o in zip(drawn, outcomes, strict=True)
        ),
    )
    advantage = {"kind": "differential_smoothing", "gamma_p": 0.1, "gamma_n": 1.0, "scale": "none"}
    (rows,) = rows_of([group], forward, advantage=advantage).groups
    # r - mean is 1/3 and -2/3; right: + 0.1 * 3 and + 0.1 * 9 nats, wrong: - 1 nat.
    expected = [1 / 3 + 0.3, -2 / 3 - 1.0, 1 / 3 + 0.9, 0.0]
    assert [row.advantage for row in rows] == pytest.approx(expected, abs=1e-6)


def test_an_advantage_may_read_how_often_the_initial_policy_was_right(forward):
    advantage = {"kind": "bbg", "k": 4, "tau": 0.0}
    base = BaseCounts(correct={"p": 3}, samples=8)
    (gated, _) = rows_of(GROUPS, forward, base=base, advantage=advantage).groups
    (plain, _) = rows_of(GROUPS, forward).groups
    gate = boundary_gate(3, 8, 4)
    assert [r.advantage for r in gated] == pytest.approx([gate * r.advantage for r in plain])


ALPHA_DPG = {"advantage": {"kind": "alpha_dpg", "alpha": 0.0, "clip": 1e9}}


def by_hand(drawn, initial, rate):
    """Of a right and a wrong answer: p / pi - 1 against -1, each the other's baseline."""
    ratio = exp(sum(initial) - sum(drawn)) / rate
    return [ratio, -ratio]


def test_an_advantage_may_read_the_initial_policys_log_probs_of_new_samples(forward, make_model):
    reference = make_model(seed=1)
    base = BaseCounts(correct={"p": 3}, samples=8)
    scorers = Scorers(old=None, reference=reference)
    first, second = rows_of(GROUPS, forward, scorers, base=base, **ALPHA_DPG).groups
    initial = scores(reference, first[0])
    expected = by_hand((-1.0, -1.0), initial, 0.4)
    assert [row.advantage for row in first] == pytest.approx(expected, rel=1e-4)
    assert first[0].ref_logprobs == pytest.approx(initial, abs=1e-5)
    assert [row.advantage for row in second] == [0.0, 0.0]


def test_both_log_probs_that_are_compared_come_from_the_forward_where_old_ones_do(forward):
    # A policy that is still the initial one has p / pi = 1 / 0.4, whatever its sampler says.
    base = BaseCounts(correct={"p": 3}, samples=8)
    scorers = Scorers(old=forward.model, reference=forward.model)
    rows = rows_of(GROUPS, forward, scorers, base=base, **ALPHA_DPG)
    assert [row.advantage for row in rows.groups[0]] == pytest.approx([2.5, -2.5], rel=1e-6)
    flat = [row for group in rows.groups for row in group]
    assert all(row.old_logprobs == row.ref_logprobs for row in flat)
    assert rows.gap is not None


def test_an_initial_policy_that_nobody_loaded_is_missed_by_name(forward):
    base = BaseCounts(correct={"p": 3}, samples=8)
    with pytest.raises(DataError, match="reads 'ref_logprobs' of the samples, which is not given"):
        rows_of(GROUPS, forward, base=base, **ALPHA_DPG)


def test_a_partial_reward_stops_an_advantage_of_right_answers_at_the_first_batch(forward):
    half = Group(prompt_ids=(3, 4), completions=(graded((5, 1), 0.5), graded((6, 6, 1), 0.0)))
    with pytest.raises(DataError, match=r"'maxrl' needs rewards of 0 or 1, got 0\.5"):
        rows_of([half], forward, advantage={"kind": "maxrl"})
