import logging
from math import isfinite

import pytest

from dph.errors import DataError
from dph.recipe import ObjectiveSettings
from dph.records import Outcome
from dph.runs.objective import make_objective
from dph.runs.train.policy_rows import Scorers, logprob_gap, policy_rows, warn_of_gap
from dph.runs.train.rows import split_minibatches
from dph.runs.train.updating import LogprobGap
from loop_parts import graded, group_of, score, training_forward
from own_advantage import RELATIVE

NOBODY = Scorers(old=None, reference=None)


def rows_of(groups, forward, scorers=NOBODY, **settings):
    settings = ObjectiveSettings(**settings)
    return policy_rows(
        groups, forward, scorers, objective=make_objective(settings), settings=settings
    )


RIGHT, WRONG = Outcome.CORRECT, Outcome.WRONG
GROUPS = [
    group_of(graded(RIGHT, (5, 1)), graded(WRONG, (6, 6, 1))),
    group_of(graded(WRONG, (5, 5, 5), finished=False), graded(WRONG, (7,)), prompt=(3, 5)),
]


def scores(model, row):
    return score(model, row.prompt_ids, row.completion_ids)


@pytest.fixture
def forward(make_model):
    return training_forward(make_model(), max_tokens=3)


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


def test_the_reference_scores_all_rows_but_those_that_were_cut_off_and_are_masked(
    forward, make_model
):
    reference = make_model(seed=1)
    scorers = Scorers(old=None, reference=reference)
    rows = rows_of(GROUPS, forward, scorers, kl_coefficient=0.1)
    for row in (row for group in rows.groups for row in group):
        assert row.ref_logprobs == pytest.approx(scores(reference, row), abs=1e-5)
    rows = rows_of(GROUPS, forward, scorers, kl_coefficient=0.1, overlong_filter=True)
    flat = [row for group in rows.groups for row in group]
    assert [row.masked for row in flat] == [False, False, True, False]
    assert [row.ref_logprobs is None for row in flat] == [False, False, True, False]


def test_rows_of_the_first_of_several_mini_batches_need_not_be_scored_before_it(forward):
    pair = graded(RIGHT, (5, 1)), graded(WRONG, (6, 1))
    groups = [group_of(*pair, prompt=(3, 4 + i)) for i in range(5)]
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
    pair = graded(RIGHT, (5, 1)), graded(WRONG, (6, 1))
    crashed = graded(Outcome.CRASHED, (7, 1))
    (rows,) = rows_of([group_of(*pair, crashed)], forward).groups
    (alone,) = rows_of([group_of(*pair)], forward).groups
    assert [row.advantage for row in rows] == [*(row.advantage for row in alone), 0.0]
    assert [row.masked for row in rows] == [False, False, True]


def test_an_ungradable_gold_leaves_no_advantage_or_weight_and_a_crash_is_no_signal(forward):
    outcomes = [RIGHT, RIGHT, Outcome.BAD_GOLD, Outcome.CRASHED]
    group = group_of(*(graded(outcome, (5 + i, 1)) for i, outcome in enumerate(outcomes)))
    assert not group.gradable
    assert not group.has_signal
    (rows,) = rows_of([group], forward).groups
    assert [row.advantage for row in rows] == [0.0] * 4
    assert all(row.masked for row in rows)
    group = group_of(graded(RIGHT, (5, 1)), graded(RIGHT, (6, 1)), graded(Outcome.CRASHED, (7, 1)))
    assert group.gradable
    assert not group.has_signal


def test_an_advantage_may_read_log_probs_and_be_named_by_its_import_path(forward):
    drawn = [(-1.0, -2.0), (-0.5, -0.5), (-4.0, -5.0), (-9.0, -9.0)]
    outcomes = [RIGHT, WRONG, RIGHT, Outcome.CRASHED]
    pairs = zip(outcomes, drawn, strict=True)
    group = group_of(*(graded(outcome, (5, 1), logprobs=x) for outcome, x in pairs))
    advantage = {"kind": "differential_smoothing", "gamma_p": 0.1, "gamma_n": 1.0, "scale": "none"}
    (rows,) = rows_of([group], forward, advantage=advantage).groups
    # r - mean is 1/3 and -2/3; right: + 0.1 * 3 and + 0.1 * 9 nats, wrong: - 1 nat.
    expected = [1 / 3 + 0.3, -2 / 3 - 1.0, 1 / 3 + 0.9, 0.0]
    assert [row.advantage for row in rows] == pytest.approx(expected, abs=1e-6)
    # (r - mean) / mean: of 1, 0 and 0 the mean is 1/3; the fourth could not be graded.
    answers = [graded(o, (5, 1)) for o in (RIGHT, WRONG, WRONG, Outcome.CRASHED)]
    (rows,) = rows_of([group_of(*answers)], forward, advantage={"kind": RELATIVE}).groups
    assert [row.advantage for row in rows] == pytest.approx([2, -1, -1, 0], abs=1e-6)


def test_an_advantage_may_read_the_initial_policys_log_probs_of_new_samples(forward, make_model):
    reference = make_model(seed=1)
    scorers = Scorers(old=None, reference=reference)
    advantage = {"kind": "flowrl", "beta": 0.0}
    first, _ = rows_of(GROUPS, forward, scorers, advantage=advantage).groups
    initial = [scores(reference, row) for row in first]
    # The sampler said -1 at every token; each of two is half their distance from the mean.
    right, wrong = (sum(x) / len(x) + 1 for x in initial)
    half = (right - wrong) / 2
    assert [row.advantage for row in first] == pytest.approx([half, -half], rel=1e-4)
    assert first[0].ref_logprobs == pytest.approx(initial[0], abs=1e-5)


def test_both_log_probs_that_are_compared_come_from_the_forward_where_old_ones_do(forward):
    # Of a policy that is still the initial one only beta (r - mean) is left.
    scorers = Scorers(old=forward.model, reference=forward.model)
    advantage = {"kind": "flowrl", "beta": 4.0, "scale": "none"}
    rows = rows_of(GROUPS, forward, scorers, advantage=advantage)
    assert [row.advantage for row in rows.groups[0]] == pytest.approx([2, -2], rel=1e-6)
    flat = [row for group in rows.groups for row in group]
    assert all(row.old_logprobs == row.ref_logprobs for row in flat)
    assert rows.gap is not None


def test_a_partial_reward_stops_an_advantage_of_right_answers_at_the_first_batch(forward):
    half = group_of(graded(RIGHT, (5, 1), reward=0.5), graded(WRONG, (6, 6, 1)))
    with pytest.raises(DataError, match=r"'maxrl' needs rewards of 0 or 1, got 0\.5"):
        rows_of([half], forward, advantage={"kind": "maxrl"})


def test_an_answer_without_tokens_has_the_length_of_one(forward):
    answers = [graded(RIGHT, (), logprobs=()), graded(WRONG, (5, 1), logprobs=(-1.0, -2.0))]
    (rows,) = rows_of([group_of(*answers)], forward, advantage={"kind": "ucpo"}).groups
    assert all(isfinite(row.advantage) for row in rows)


def test_the_gap_is_the_mean_and_largest_difference_and_without_tokens_there_is_none(caplog):
    gap = logprob_gap([(-1.0, -2.0), (-3.0,)], [(-1.0, -2.5), (-2.0,)])
    assert gap == LogprobGap(mean=0.5, largest=1.0)
    assert logprob_gap([(), ()], [(), ()]) is None
    with caplog.at_level(logging.WARNING, logger="dph"):
        warn_of_gap(None, dtype="float32")
    assert not caplog.records


@pytest.mark.parametrize(
    ("mean", "dtype", "warns"),
    [
        (0.0005, "float32", False),
        (0.01, "float32", True),
        (0.01, "bfloat16", False),
        (float("nan"), "bfloat16", True),
    ],
)
def test_more_than_rounding_is_warned_of(caplog, mean, dtype, warns):
    with caplog.at_level(logging.WARNING, logger="dph"):
        warn_of_gap(LogprobGap(mean=mean, largest=mean), dtype=dtype)
    assert bool(caplog.records) == warns
    if warns:
        assert "log-probs of sampler and trainer differ" in caplog.text
