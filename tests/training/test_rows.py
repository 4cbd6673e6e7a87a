from hypothesis import given
from hypothesis import strategies as st

from dph.presampling.pool import RehearsalSample
from dph.training.rows import PolicyRow, WeightedRow, split_minibatches


def group_of(name, size=2):
    return tuple(
        PolicyRow(prompt_ids=(name,), completion_ids=(i,), advantage=1.0, old_logprobs=(0.0,))
        for i in range(size)
    )


def stored(name):
    return RehearsalSample(
        problem_id=str(name),
        sample_index=0,
        prompt_ids=(name,),
        completion_ids=(1,),
        ref_logprobs=(0.0,),
        correct=8,
    )


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 6))
def test_every_group_and_stored_sample_is_in_exactly_one_minibatch(groups, samples, parts):
    all_groups = [group_of(i) for i in range(groups)]
    all_stored = [stored(i) for i in range(samples)]
    batches = split_minibatches(all_groups, all_stored, parts)
    assert len(batches) == min(parts, groups)
    assert sorted(g[0].prompt_ids for b in batches for g in b.groups) == [
        (i,) for i in range(groups)
    ]
    assert sorted(int(s.problem_id) for b in batches for s in b.rehearsal) == list(range(samples))


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 6))
def test_shares_differ_by_at_most_one(groups, samples, parts):
    batches = split_minibatches(
        [group_of(i) for i in range(groups)], [stored(i) for i in range(samples)], parts
    )
    for sizes in ([len(b.groups) for b in batches], [len(b.rehearsal) for b in batches]):
        assert max(sizes) - min(sizes) <= 1


def test_a_row_knows_its_kind():
    assert WeightedRow(row=stored(0), weight=1.0).is_rehearsal
    assert not WeightedRow(row=group_of(0)[0], weight=1.0).is_rehearsal
