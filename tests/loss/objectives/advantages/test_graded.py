from functools import partial
from math import inf, nan

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import (
    PKPO,
    BayesianBoundaryGateOfGroup,
    DifferentialSmoothing,
    FlowRL,
    FocalAdvantage,
    GroupAdvantage,
    GroupSamples,
    MaxRL,
    PassAtK,
    UniformCorrect,
    boundary_gate,
    graded_advantages,
    group_advantages,
    reads_of,
)
from dph.loss.objectives.advantages.graded import least_samples_of
from dph.recipe.terms import ADVANTAGES

REWARDS = torch.tensor([[1.0, 0.0, 0.0, 9.0], [1.0, 0.0, 1.0, 0.0], [7.0, 7.0, 7.0, 7.0]])
GRADED = torch.tensor([[True, True, True, False], [True] * 4, [False] * 4])


class Recording:
    """Gives every sample its log-prob, and remembers what it was shown."""

    reads = frozenset({"logprobs", "ref_logprobs"})

    def __init__(self):
        self.seen = []

    def __call__(self, rewards, samples):
        self.seen.append((rewards, samples))
        return samples.logprobs + 10 * rewards.mean(-1, keepdim=True)


def test_an_advantage_that_reads_sees_the_graded_samples_of_a_group():
    samples = GroupSamples(
        logprobs=-torch.arange(12.0).view(3, 4),
        lengths=torch.arange(12).view(3, 4) + 1,
        ref_logprobs=-torch.arange(12.0).view(3, 4) - 100,
    )
    term = Recording()
    found = graded_advantages(term, REWARDS, GRADED, samples)
    # The means of the graded rewards are 1/3 and 1/2.
    assert found[0].tolist() == pytest.approx([10 / 3, 10 / 3 - 1, 10 / 3 - 2, 0], abs=1e-6)
    assert found[1:].tolist() == [[1.0, 0.0, -1.0, -2.0], [0.0] * 4]
    (three, first), (four, second) = term.seen
    assert three.tolist() == [[1, 0, 0]]
    assert first.lengths.tolist() == [[1, 2, 3]]
    assert first.ref_logprobs.tolist() == [[-100, -101, -102]]
    assert four.tolist() == [[1, 0, 1, 0]]
    assert second.lengths.tolist() == [[5, 6, 7, 8]]


def test_an_ungraded_sample_is_no_part_of_its_group_which_may_become_too_small():
    found = graded_advantages(group_advantages, REWARDS, GRADED)
    assert found[0].tolist() == [*group_advantages(REWARDS[:1, :3])[0].tolist(), 0]
    assert found[1].equal(group_advantages(REWARDS[1:2])[0])
    assert found[2].tolist() == [0.0] * 4
    found = graded_advantages(PassAtK(3), REWARDS, GRADED)
    assert found[0].tolist() == [0.0] * 4
    assert torch.equal(found[1], PassAtK(3)(REWARDS[1:2])[0])
    with pytest.raises(DataError, match=r"PassAtK\(k=4\) needs groups of at least 5.*got 4"):
        graded_advantages(PassAtK(4), REWARDS, GRADED)


def test_what_an_advantage_reads_has_to_be_there_and_others_are_not_shown_it():
    samples = GroupSamples(logprobs=REWARDS, lengths=torch.ones(3, 4).long())
    for given, missing in ((None, "logprobs"), (samples, "ref_logprobs")):
        with pytest.raises(DataError, match=f"reads '{missing}' of the samples"):
            graded_advantages(Recording(), REWARDS, GRADED, given)
    plain = graded_advantages(GroupAdvantage("none"), REWARDS, GRADED)
    assert torch.equal(plain, graded_advantages(GroupAdvantage("none"), REWARDS, GRADED, samples))


@pytest.mark.parametrize("wrong", [lambda r: r[:, :1], lambda r: r / 0])
def test_advantages_of_another_shape_or_not_finite_are_refused(wrong):
    with pytest.raises(DataError, match="an advantage must be finite and of the rewards' shape"):
        graded_advantages(wrong, torch.rand(2, 3), torch.ones(2, 3, dtype=torch.bool))


def test_a_user_defined_function_says_what_it_reads_even_with_parameters_bound():
    def term(rewards, samples, *, power):
        return rewards + samples.logprobs**power

    term.reads = {"logprobs"}
    assert reads_of(partial(term, power=2)) == {"logprobs"}
    assert reads_of(lambda rewards: rewards) == frozenset()
    assert reads_of(FlowRL()) == {"logprobs", "ref_logprobs"}
    term.reads = {"thoughts"}
    with pytest.raises(SettingsError, match="reads 'thoughts'; an advantage may read logprobs"):
        reads_of(term)


def test_the_smallest_group_is_one_sample_unless_samples_are_compared():
    terms = (GroupAdvantage(), PassAtK(4), PKPO(4), FlowRL(), PKPO(4, "leave_one_out"))
    assert [least_samples_of(term) for term in terms] == [1, 5, 4, 2, 5]


COUNTING = {
    "maxrl": MaxRL(),
    "f_grpo": FocalAdvantage(),
    "ucpo": UniformCorrect(),
    "pass_at_k": PassAtK(2),
    "differential_smoothing": DifferentialSmoothing(),
    "bbg_group": BayesianBoundaryGateOfGroup(),
}


def test_the_table_of_advantages_marks_those_that_count():
    assert {name for name, row in ADVANTAGES.items() if row.counts} == set(COUNTING)


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("reward", [0.5, -1.0, 2.0, nan])
def test_an_advantage_that_counts_right_answers_refuses_other_rewards(name, reward):
    rewards = torch.tensor([[1.0, 0.0, reward]])
    samples = GroupSamples(logprobs=torch.zeros(1, 3), lengths=torch.ones(1, 3).long())
    term = COUNTING[name]
    with pytest.raises(DataError, match=rf"'{name}' needs rewards of 0 or 1, got {reward:g}"):
        term(rewards, samples) if hasattr(term, "reads") else term(rewards)


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (FlowRL, [(-0.1,), (inf,), (nan,)], "finite and at least 0, got"),
        (FlowRL, [(1.0, "mean")], "'std' or 'none', got 'mean'"),
        (GroupAdvantage, [("mad",)], "'std' or 'none', got 'mad'"),
        (FocalAdvantage, [(-0.1,), (inf,), (nan,)], "gamma of f_grpo must be finite and at least"),
        (UniformCorrect, [(-0.1,), (1.1,), (nan,)], r"tau of ucpo must lie in \[0, 1\], got"),
        (DifferentialSmoothing, [(-0.1,), (0.1, inf)], "smoothing must be finite and at"),
        (DifferentialSmoothing, [(0.1, 0.1, "std", "max")], "'sum' or 'mean', got 'max'"),
        (boundary_gate, [(-1, 8, 2), (9, 8, 2), (1, 0, 2), (1, 8, 0)], "need k >= 1, samples >= 1"),
        (BayesianBoundaryGateOfGroup, [(0,)], "k of bbg_group must be at least 1, got 0"),
        (BayesianBoundaryGateOfGroup, [(4, -1.0)], "tau of bbg_group must be finite and at least"),
        (PassAtK, [(0,)], "k of pass_at_k must be at least 1, got 0"),
        (PKPO, [(1,)], "k of pkpo must be at least 2 with baseline='k_minus"),
        (PKPO, [(0, "none")], "k of pkpo must be at least 1"),
        (PKPO, [(4, "mean")], "'none', 'leave_one_out' or 'k_minus_one', got 'mean'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make, given, message):
    for arguments in given:
        with pytest.raises(SettingsError, match=message):
            make(*arguments)


SOME = torch.zeros(1, 2)


@pytest.mark.parametrize(
    ("term", "samples", "message"),
    [
        (
            FlowRL(),
            {"logprobs": SOME, "lengths": SOME.long()},
            "flowrl reads the samples' log-probs and the initial",
        ),
        (FlowRL(), {"ref_logprobs": SOME}, "which are not both given"),
        (UniformCorrect(), {}, "ucpo reads the log-probs"),
        (DifferentialSmoothing(), {}, "differential_smoothing reads the log-probs"),
    ],
)
def test_samples_without_what_a_term_reads_are_refused(term, samples, message):
    with pytest.raises(DataError, match=message):
        term(SOME, GroupSamples(**samples))


def test_groups_that_are_too_small_are_refused():
    with pytest.raises(DataError, match="k=5 needs k samples a group, got 4"):
        PassAtK(5)(torch.zeros(1, 4))
    with pytest.raises(DataError, match="baseline='leave_one_out' needs 5 samples a group, got 4"):
        PKPO(4, "leave_one_out")(torch.zeros(1, 4))
