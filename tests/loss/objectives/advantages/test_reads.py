from functools import partial

import pytest

from dph.errors import SettingsError
from dph.loss.objectives import (
    PKPO,
    AlphaDPG,
    BayesianBoundaryGate,
    GroupAdvantage,
    PassAtK,
    reads_of,
)
from dph.loss.objectives.advantages.graded import least_samples_of


def test_a_function_of_ones_own_says_what_it_reads_even_with_parameters_bound():
    def term(rewards, samples, *, power):
        return rewards + samples.logprobs**power

    term.reads = {"logprobs"}
    assert reads_of(partial(term, power=2)) == {"logprobs"}
    assert reads_of(lambda rewards: rewards) == frozenset()
    assert reads_of(BayesianBoundaryGate()) == {"base_correct"}


def test_reading_what_nobody_has_is_refused():
    class Greedy:
        reads = frozenset({"thoughts"})

        def __call__(self, rewards, samples):
            return rewards * len(samples)

    with pytest.raises(SettingsError, match="reads 'thoughts'; an advantage may read base_correct"):
        reads_of(Greedy())


def test_the_smallest_group_is_one_sample_unless_samples_are_compared():
    assert least_samples_of(GroupAdvantage()) == 1
    assert least_samples_of(PassAtK(4)) == 5
    assert least_samples_of(PKPO(4)) == 4
    assert least_samples_of(AlphaDPG()) == 2
    assert least_samples_of(PKPO(4, "leave_one_out")) == 5
