import pytest

from dph.engines.trl.rehearsal import MicroStep, MicroSteps, rehearsal_share
from dph.recipe.objective import AnchorSettings
from dph.runs.train.rows import rehearsal_of_step
from loop_parts import stored_answer


@pytest.fixture(scope="module")
def samples():
    return [stored_answer((2,) * (1 + i % 5), problem=str(i)) for i in range(30)]


def shares(samples, count, *, ranks, micros, step=3, seed=5):
    return [
        [
            rehearsal_share(
                samples,
                AnchorSettings(divergence="forward_kl", per_step=count),
                step,
                MicroStep(rank=rank, ranks=ranks, micro=micro, micros=micros),
                seed=seed,
            )
            for micro in range(micros)
        ]
        for rank in range(ranks)
    ]


@pytest.mark.parametrize(("ranks", "micros"), [(1, 1), (1, 4), (2, 1), (3, 2), (8, 4)])
@pytest.mark.parametrize("count", [1, 7, 16])
def test_every_answer_of_the_step_is_dealt_out_once(samples, count, ranks, micros):
    step = {row.problem_id for row in rehearsal_of_step(samples, count, 3, seed=5)}
    dealt = [
        row.problem_id
        for rank in shares(samples, count, ranks=ranks, micros=micros)
        for share in rank
        for row, weight in zip(share.rows, share.weights, strict=True)
        if weight
    ]
    assert sorted(dealt) == sorted(step)


@pytest.mark.parametrize(("ranks", "micros"), [(1, 1), (1, 4), (2, 1), (3, 2), (8, 4)])
def test_the_mean_over_ranks_of_sums_over_micro_steps_is_the_mean_over_tokens(
    samples, ranks, micros
):
    table = shares(samples, 7, ranks=ranks, micros=micros)
    tokens = table[0][0].tokens
    assert tokens == sum(
        len(row.completion_ids) for row in rehearsal_of_step(samples, 7, 3, seed=5)
    )
    weights = [weight for rank in table for share in rank for weight in share.weights if weight]
    assert weights == pytest.approx([ranks / tokens] * 7)
    total = sum(
        weight * len(row.completion_ids)
        for rank in table
        for share in rank
        for row, weight in zip(share.rows, share.weights, strict=True)
    )
    assert total / ranks == pytest.approx(1)


def test_no_place_is_left_without_a_forward(samples):
    for rank in shares(samples, 3, ranks=4, micros=2):
        assert all(share.rows for share in rank)


def test_the_share_depends_on_seed_and_step_alone(samples):
    def ids(**key):
        return [row.problem_id for row in shares(samples, 7, ranks=1, micros=1, **key)[0][0].rows]

    assert ids(step=3) == ids(step=3)
    assert ids(step=3) != ids(step=4)
    assert ids(seed=5) != ids(seed=6)


def test_micro_steps_start_anew_with_every_optimizer_step_and_when_training_does():
    count = MicroSteps()
    seen = [count.next(step, 2) for step in (0, 0, 1, 1, 5, 5)]
    assert seen == [0, 1, 0, 1, 0, 1]
    count = MicroSteps()
    assert [count.next(0, 2) for _ in range(4)] == [0, 1, 0, 1]
