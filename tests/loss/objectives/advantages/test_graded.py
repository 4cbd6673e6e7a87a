import pytest
import torch

from dph.errors import DataError
from dph.loss.objectives import GroupAdvantage, GroupSamples, PassAtK, graded_advantages

REWARDS = torch.tensor([[1.0, 0.0, 0.0, 9.0], [1.0, 0.0, 1.0, 0.0], [7.0, 7.0, 7.0, 7.0]])
GRADED = torch.tensor([[True, True, True, False], [True] * 4, [False] * 4])


class Recording:
    """Gives every sample its log-prob, and remembers what it was shown."""

    reads = frozenset({"logprobs", "ref_logprobs", "base_correct"})

    def __init__(self):
        self.seen = []

    def __call__(self, rewards, samples):
        self.seen.append((rewards, samples))
        return samples.logprobs + samples.base_correct[:, None]


def test_an_advantage_that_reads_sees_the_graded_samples_of_a_group_and_its_problems_count():
    samples = GroupSamples(
        logprobs=-torch.arange(12.0).view(3, 4),
        lengths=torch.arange(12).view(3, 4) + 1,
        ref_logprobs=-torch.arange(12.0).view(3, 4) - 100,
        base_correct=torch.tensor([10, 20, 30]),
        base_samples=8,
    )
    term = Recording()
    found = graded_advantages(term, REWARDS, GRADED, samples)
    assert found.tolist() == [[10.0, 9.0, 8.0, 0.0], [16.0, 15.0, 14.0, 13.0], [0.0] * 4]
    (three, first), (four, second) = term.seen
    assert three.tolist() == [[1, 0, 0]]
    assert first.lengths.tolist() == [[1, 2, 3]]
    assert first.ref_logprobs.tolist() == [[-100, -101, -102]]
    assert first.base_correct.tolist() == [10]
    assert four.tolist() == [[1, 0, 1, 0]]
    assert second.lengths.tolist() == [[5, 6, 7, 8]]
    assert second.base_samples == 8


def test_what_an_advantage_reads_has_to_be_there():
    for samples in (None, GroupSamples(logprobs=REWARDS, lengths=torch.ones(3, 4).long())):
        with pytest.raises(DataError, match=r"reads 'base_correct' of the samples"):
            graded_advantages(Recording(), REWARDS, GRADED, samples)


def test_an_advantage_of_rewards_alone_is_not_shown_the_rest():
    samples = GroupSamples(logprobs=REWARDS, lengths=torch.ones(3, 4).long())
    plain = graded_advantages(GroupAdvantage("none"), REWARDS, GRADED)
    assert torch.equal(plain, graded_advantages(GroupAdvantage("none"), REWARDS, GRADED, samples))


def test_a_group_of_which_too_few_samples_were_graded_has_no_advantage():
    found = graded_advantages(PassAtK(3), REWARDS, GRADED)
    assert found[0].tolist() == [0.0] * 4
    found = graded_advantages(PassAtK(2), REWARDS[:2, :], GRADED[:2])
    assert torch.equal(found[1], PassAtK(2)(REWARDS[1:2])[0])
    assert found[0, :3].tolist() == PassAtK(2)(REWARDS[:1, :3])[0].tolist()


def test_groups_that_are_too_small_to_begin_with_are_refused():
    with pytest.raises(DataError, match=r"PassAtK\(k=4\) needs groups of at least 5.*got 4"):
        graded_advantages(PassAtK(4), REWARDS, GRADED)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(DataError, match="3 values that are not"):
        graded_advantages(lambda r: r / 0.0, torch.tensor([[1.0, 1.0, 1.0]]), GRADED[1:2, :3])
