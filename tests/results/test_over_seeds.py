from math import sqrt
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy.stats import ttest_rel

from dph.errors import DataError, SettingsError
from dph.results.over_seeds import (
    aggregate_sets,
    holm,
    mean_over_seeds,
    paired_t,
    t_quantile,
)
from results.charts.synthetic import make_summary


@pytest.fixture
def seeds():
    """The sets of one model with three seeds."""
    return [make_summary(["grpo"], seed)["methods"]["grpo"]["sets"] for seed in range(3)]


def test_three_seeds_give_their_mean_and_t_interval_cut_at_what_is_possible(seeds):
    for seed, share in zip(seeds, (0.1, 0.2, 0.6), strict=True):
        seed["in_domain"]["cut_off"] = share
    whole = aggregate_sets(seeds)["in_domain"]
    assert whole["cut_off"] == pytest.approx(0.3)
    values = [seed["in_domain"]["pass_at_k"]["8"] for seed in seeds]
    half = 4.302653 * stdev(values) / sqrt(3)
    assert whole["pass_at_k"]["8"] == pytest.approx(fmean(values))
    assert whole["ci95"]["pass_at_8"] == pytest.approx([fmean(values) - half, fmean(values) + half])
    assert mean_over_seeds([0.5, 0.9]).interval((0.0, 1.0)) == (0.0, 1.0)


def test_the_result_has_the_form_of_one_seed_and_what_a_seed_does_not_know_stays_unknown(seeds):
    many = aggregate_sets(seeds)["in_domain"]
    assert set(many) == set(seeds[0]["in_domain"])
    assert set(seeds[0]["in_domain"]["ci95"]) <= set(many["ci95"])
    assert sum(many["styles"].values()) == pytest.approx(1)
    seeds[1]["in_domain"]["keep"] = None
    whole = aggregate_sets(seeds)
    assert whole["in_domain"]["keep"] is None
    assert whole["in_domain"]["ci95"]["keep"] is None
    assert whole["arithmetic"]["effective_styles"] is None
    alone = aggregate_sets(seeds[:1])["in_domain"]
    assert alone["mean"] == seeds[0]["in_domain"]["mean"]
    assert set(alone["ci95"].values()) == {None}
    del seeds[2]["arithmetic"]
    with pytest.raises(DataError, match=r"differ in their sets: .*'arithmetic'\] and"):
        aggregate_sets(seeds)


def test_a_style_that_a_seed_never_showed_has_share_zero_there(seeds):
    for seed in seeds:
        seed["in_domain"]["styles"] = {"plain": 1.0}
    seeds[0]["in_domain"]["styles"] = {"cte": 1.0}
    shares = aggregate_sets(seeds)["in_domain"]["styles"]
    assert shares == pytest.approx({"cte": 1 / 3, "plain": 2 / 3})


@pytest.mark.parametrize(
    ("probability", "degrees", "message"),
    [(1.0, 2, "got 1.0"), (0.4, 2, "got 0.4"), (0.975, 0, "at least 1, got 0")],
)
def test_arguments_out_of_range_are_refused(probability, degrees, message):
    with pytest.raises(SettingsError, match=message):
        t_quantile(probability, degrees)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("count", [2, 3, 10])
def test_the_paired_test_is_scipys(alternative, count):
    rng = np.random.default_rng(count)
    a, b = rng.normal(0.7, 0.1, count).tolist(), rng.normal(0.6, 0.1, count).tolist()
    ours, theirs = paired_t(a, b, alternative), ttest_rel(a, b, alternative=alternative)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    interval = ttest_rel(a, b).confidence_interval()
    assert (ours.lo, ours.hi) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_equal_differences_are_certain_none_says_nothing_and_one_seed_has_no_interval():
    assert paired_t([2.0, 3.0], [1.0, 2.0], "greater").p_value == 0.0
    assert paired_t([1.0, 2.0], [2.0, 3.0], "greater").p_value == 1.0
    same = paired_t([1.0, 2.0], [1.0, 2.0])
    assert (same.mean, same.p_value) == (0.0, 1.0)
    assert paired_t([1.0, 2.0], [1.0, 2.0], "greater").p_value == 0.5
    found = paired_t([1.0], [0.5])
    assert (found.mean, found.lo, found.hi, found.p_value) == (0.5, None, None, None)


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], [])])
def test_values_that_do_not_belong_together_are_refused(a, b):
    with pytest.raises(DataError, match="belong together"):
        paired_t(a, b)


def test_holms_correction_by_hand_stops_at_one_and_leaves_a_single_p_value_alone():
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1: 0.03, 0.04, 0.04.
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_what_is_rejected_is_what_the_step_down_procedure_rejects():
    """Holm 1979: reject in rising order while p(j) <= level / (m - j + 1), stop at the first."""
    p_values, level = [0.012, 0.3, 0.016, 0.001, 0.026], 0.05
    rejected, m = set(), len(p_values)
    for j, place in enumerate(sorted(range(m), key=p_values.__getitem__)):
        if p_values[place] > level / (m - j):
            break
        rejected.add(place)
    assert rejected == {i for i, p in enumerate(holm(p_values)) if p <= level}
    assert rejected == {0, 2, 3}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p):
    with pytest.raises(DataError, match="lies in"):
        holm([p])
