import numpy as np
import pytest

from dph.results.diagnosis.log_findings import log_findings, log_series

STEPS = 20


def line(begin, end, *, at=STEPS // 2):
    """``begin`` before the step ``at`` and ``end`` from it on."""
    return [begin if step < at else end for step in range(1, STEPS + 1)]


def findings(**columns):
    rows = [
        {"step": i + 1, **{name: values[i] for name, values in columns.items()}}
        for i in range(STEPS)
    ]
    return {finding.about: finding for finding in log_findings(rows)}


def test_an_empty_log_says_nothing():
    assert log_findings([]) == []


def test_what_a_log_lacks_is_not_spoken_of():
    assert set(findings()) == {"steps"}


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (0.9, "rose from 0.50 to 0.90, half of it by step 10"),
        (0.1, "fell from 0.50 to 0.10"),
        (0.52, "stayed within a tenth"),
    ],
)
def test_the_course_of_the_reward_is_told(end, words):
    found = findings(reward=line(0.5, end))["reward"]
    assert words in found.text
    assert (found.values["begin"], found.values["end"]) == (0.5, pytest.approx(end))


def test_a_reward_that_fell_from_its_peak_is_told_and_one_that_did_not_is_not():
    peak = [0.2] * 6 + [0.9] * 8 + [0.3] * 6
    assert (
        "highest around step 8 (0.90) and ended lower (0.30)"
        in findings(reward=peak)["reward_peak"].text
    )
    assert "reward_peak" not in findings(reward=line(0.2, 0.9))


@pytest.mark.parametrize(
    ("entropy_at", "styles_at", "order"),
    [
        (5, 15, "Entropy fell first"),
        (15, 5, "Styles fell first"),
        (10, 11, "Entropy and styles fell together"),
    ],
)
def test_what_fell_first_is_told_with_both_steps(entropy_at, styles_at, order):
    found = findings(
        entropy=line(1, 0.2, at=entropy_at), effective_styles=line(5, 1, at=styles_at)
    )["entropy_or_styles_first"]
    assert found.text.startswith(order)
    assert found.values == {
        "entropy_half_way": entropy_at,
        "styles_half_way": styles_at,
        "within": 2,
    }


@pytest.mark.parametrize("end", [5, 6])
def test_no_order_is_told_where_one_of_the_two_did_not_fall(end):
    assert "entropy_or_styles_first" not in findings(
        entropy=line(1, 0.2), effective_styles=line(5, end)
    )


def test_groups_without_signal_are_told_over_all_steps_and_at_both_ends():
    found = findings(zero_variance=line(0.1, 0.5, at=11))["groups_without_signal"]
    assert found.text == (
        "Of the groups 30.0% had equal rewards, 10.0% at the beginning and 50.0% at the end."
    )


@pytest.mark.parametrize(("groups", "told"), [(0, False), (2, True)])
def test_ungradable_groups_are_told_if_there_are_some(groups, told):
    found = findings(zero_variance=line(0, 0), ungradable=line(0, groups, at=20))
    assert ("ungradable" in found) == told
    assert not told or found["ungradable"].values == {"groups": 2}


def test_distances_are_told_where_they_were_measured():
    nothing = findings(kl_penalty=line(0, 0), divergence=line(0, 0))
    assert "no_distance" in nothing
    assert not {"kl", "anchor"} & set(nothing)
    both = findings(kl_penalty=line(0.01, 0.2), divergence=line(0.001, 0.0010))
    assert "rose from 0.01 to 0.2" in both["kl"].text
    assert "stayed within a tenth" in both["anchor"].text
    assert "no_distance" not in both
    assert not {"kl", "anchor", "no_distance"} & set(findings())


def test_clipping_is_told_with_its_mean_and_its_largest_step():
    found = findings(clipped_low=line(0, 0.2, at=20), clipped_high=line(0.1, 0.1))["clipping"]
    assert found.text == (
        "Of the policy's tokens the ratio was clipped for 1.0% below (at most 20.0%, step 20) and "
        "10.0% above (at most 10.0%, step 1)."
    )
    nothing = findings(clipped_low=line(0, 0), clipped_high=line(0, 0))["clipping"]
    assert nothing.text == "No ratio of a token was clipped."


def test_lengths_are_told_and_cut_off_answers_if_there_are_some():
    assert "fell from 100.00 to 50.00" in findings(completion_tokens=line(100, 50))["length"].text
    assert "cut_off" not in findings(unfinished=line(0, 0))
    assert "rose from 0.0% to 50.0%" in findings(unfinished=line(0, 0.5))["cut_off"].text


def test_a_broken_verifier_and_broken_gradients_are_told():
    found = findings(outcome_crashed=line(0, 0.1, at=11), grad_norm=line(1, None, at=19))
    assert "CRASHED for 5.0% of the answers" in found["crashed"].text
    assert found["not_finite"].values == {"steps": 2, "first": 19}
    assert "timed_out" not in found
    assert "not_finite" not in findings(grad_norm=line(1, 1))


def series(values):
    return log_series([{"step": i + 1, "x": v} for i, v in enumerate(values)], "x")


def test_begin_and_end_are_means_over_a_tenth_of_the_steps():
    found = series([1, 3, *[0] * 16, 5, 7])
    assert (found.window, found.begin, found.end) == (2, 2, 6)
    assert series([4.0, 5.0]).begin == 4


@pytest.mark.parametrize(
    ("end", "fell", "rose"), [(0.85, True, False), (0.95, False, False), (1.2, False, True)]
)
def test_a_change_is_noticed_from_a_tenth_on(end, fell, rose):
    found = series([1.0] * 10 + [end] * 10)
    assert (found.fell, found.rose) == (fell, rose)


def test_half_way_is_the_step_after_which_it_stays_nearer_to_its_end():
    assert series([1.0] * 5 + [0.0] * 5).half_way() == 6
    assert series([1.0, 0.0, 1.0, 1.0, 0.0, 0.0]).half_way() == 5
    assert series([1.0]).half_way() == 1


def test_smoothed_values_are_means_of_what_is_near():
    found = series(range(40))  # a window of 4 reaches 2 to each side
    smoothed = found.smoothed()
    np.testing.assert_allclose(smoothed[2:-2], np.arange(2, 38))
    assert smoothed[0] == 1  # 0, 1, 2
    assert found.highest() == (40, 38)


def test_steps_without_the_number_are_left_out():
    found = log_series([{"step": 1, "x": None}, {"step": 2}, {"step": 3, "x": 5}], "x")
    assert found.steps.tolist() == [3]
    assert log_series([{"step": 1, "x": None}], "x") is None
