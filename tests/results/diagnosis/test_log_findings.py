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


def test_what_a_log_lacks_is_left_out_and_not_spoken_of():
    assert log_findings([]) == []
    assert set(findings()) == {"steps"}
    found = log_series([{"step": 1, "x": None}, {"step": 2}, {"step": 3, "x": 5}], "x")
    assert found.steps.tolist() == [3]
    assert log_series([{"step": 1, "x": None}], "x") is None


@pytest.mark.parametrize(
    ("about", "columns", "words"),
    [
        ("reward", {"reward": line(0.5, 0.9)}, "rose from 0.50 to 0.90, half of it by step 10"),
        ("reward", {"reward": line(0.5, 0.1)}, "fell from 0.50 to 0.10"),
        ("reward", {"reward": line(0.5, 0.52)}, "stayed within a tenth"),
        (
            "reward_peak",
            {"reward": [0.2] * 6 + [0.9] * 8 + [0.3] * 6},
            "highest around step 8 (0.90) and ended lower (0.30)",
        ),
        (
            "groups_without_signal",
            {"zero_variance": line(0.1, 0.5, at=11)},
            "30.0% of the groups had equal rewards, 10.0% at the beginning and 50.0% at the end.",
        ),
        ("length", {"completion_tokens": line(100, 50)}, "fell from 100.00 to 50.00"),
        ("cut_off", {"unfinished": line(0, 0.5)}, "rose from 0.0% to 50.0%"),
        ("kl", {"kl_penalty": line(0.01, 0.2)}, "rose from 0.01 to 0.2"),
        ("anchor", {"divergence": line(0.001, 0.001)}, "stayed within a tenth"),
        (
            "clipping",
            {"clipped_low": line(0, 0.2, at=20), "clipped_high": line(0.1, 0.1)},
            "The ratio of the policy's tokens was clipped below for 1.0% (at most 20.0%, step 20) "
            "and above for 10.0% (at most 10.0%, step 1) of them.",
        ),
        (
            "clipping",
            {"clipped_low": line(0, 0), "clipped_high": line(0, 0)},
            "No ratio of a token was clipped.",
        ),
        ("crashed", {"outcome_crashed": line(0, 0.1, at=11)}, "CRASHED for 5.0% of the answers"),
    ],
)
def test_what_a_log_shows_is_told_with_its_numbers(about, columns, words):
    assert words in findings(**columns)[about].text


@pytest.mark.parametrize(
    ("about", "columns"),
    [
        ("reward_peak", {"reward": line(0.2, 0.9)}),
        ("cut_off", {"unfinished": line(0, 0)}),
        ("kl", {"kl_penalty": line(0, 0)}),
        ("anchor", {"divergence": line(0, 0)}),
        ("no_distance", {"kl_penalty": line(0.01, 0.2), "divergence": line(0.001, 0.001)}),
        ("timed_out", {"outcome_crashed": line(0, 0.1)}),
        ("not_finite", {"grad_norm": line(1, 1)}),
        ("ungradable", {"zero_variance": line(0, 0), "ungradable": line(0, 0)}),
    ],
)
def test_what_did_not_happen_is_not_told(about, columns):
    assert about not in findings(**columns)


def test_findings_hold_their_values():
    found = findings(
        reward=line(0.5, 0.9),
        grad_norm=line(1, None, at=19),
        zero_variance=line(0, 0),
        ungradable=line(0, 2, at=20),
        kl_penalty=line(0, 0),
        divergence=line(0, 0),
    )
    assert (found["reward"].values["begin"], found["reward"].values["end"]) == (0.5, 0.9)
    assert found["not_finite"].values == {"steps": 2, "first": 19}
    assert found["ungradable"].values == {"groups": 2}
    assert "no_distance" in found


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
