import pytest

from lab.study.candidates import Candidate
from lab.study.plan import Choice, best_candidate
from lab.study.settings import ChoiceSettings


def of(*strengths):
    return [Candidate(strength=strength) for strength in strengths]


@pytest.mark.parametrize(
    ("scores", "tie", "stronger", "weaker"),
    [
        ([1.600, 1.598, 1.590], 0.005, 1, 0),  # 1.598 is less than half a point below
        ([1.600, 1.595, 1.590], 0.0, 0, 0),
        ([1.590, 1.600, 1.597], 0.005, 2, 1),
        ([1.500, 1.500, 1.500], 0.0, 2, 0),  # exactly equal is always a tie
        ([1.590, 1.600, 1.500], 0.005, 1, 1),
    ],
)
def test_of_a_tie_the_strength_that_the_rule_names_wins(scores, tie, stronger, weaker):
    tried = of(0.1, 1.0, 10.0)
    for goes_to, wanted in (("stronger", stronger), ("weaker", weaker)):
        rule = ChoiceSettings(tie=tie, tie_goes_to=goes_to)
        assert best_candidate(tried, scores, rule) == wanted


def test_exactly_the_tie_below_is_no_tie():
    assert best_candidate(of(1.0, 2.0), [0.5, 0.25], ChoiceSettings(tie=0.25)) == 0


def test_stronger_is_also_the_smaller_step_and_the_smaller_weight():
    tried = [Candidate(learning_rate=rate) for rate in (5e-4, 2e-4)]
    assert best_candidate(tried, [1.0, 1.0], ChoiceSettings()) == 1
    tried = [Candidate(interpolate=weight) for weight in (0.7, 0.3)]
    assert best_candidate(tried, [1.0, 1.0], ChoiceSettings()) == 1


@pytest.mark.parametrize(
    ("scores", "tied"),
    [
        ((1.63222, 1.63222, 1.5), (0.1, 1.0)),
        ((1.600, 1.598, 1.590), (0.1, 1.0)),
        ((1.600, 1.595, 1.590), ()),
        ((1.600, None, 1.590), ()),  # nothing was decided by scores
        ((1.600, 1.598, 1.597), (0.1, 1.0, 10.0)),
    ],
)
def test_a_choice_tells_between_which_candidates_the_tie_break_chose(scores, tied):
    tried = tuple(of(0.1, 1.0, 10.0))
    choice = Choice(tried=tried, scores=scores, chosen=tried[0])
    assert [candidate.strength for candidate in choice.tied(0.005)] == list(tied)
