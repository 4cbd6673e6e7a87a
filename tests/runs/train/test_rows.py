from hypothesis import given
from hypothesis import strategies as st

from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import PolicyRow, split_minibatches


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
    batches = split_minibatches(all_groups, {"a": all_stored, "b": all_stored[:1]}, parts)
    assert len(batches) == min(parts, groups)
    assert sorted(g[0].prompt_ids for b in batches for g in b.groups) == [
        (i,) for i in range(groups)
    ]
    for name, share in (("a", all_stored), ("b", all_stored[:1])):
        dealt = [s.problem_id for b in batches for s in b.stored[name]]
        assert sorted(dealt) == sorted(s.problem_id for s in share)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 6))
def test_shares_differ_by_at_most_one(groups, samples, parts):
    batches = split_minibatches(
        [group_of(i) for i in range(groups)], {"a": [stored(i) for i in range(samples)]}, parts
    )
    for sizes in ([len(b.groups) for b in batches], [len(b.stored["a"]) for b in batches]):
        assert max(sizes) - min(sizes) <= 1
