from math import sqrt
from random import Random
from statistics import fmean, stdev

import pytest

from dph.errors import DataError
from dph.results.charts.aggregate import aggregate_summaries, prediction_interval, t_interval
from dph.results.charts.tables import comparison_table
from results.charts.synthetic import make_summary


@pytest.fixture
def seeds():
    return [make_summary(["grpo", "dph_f"], seed) for seed in range(3)]


def test_three_seeds_give_their_mean_and_t_interval(seeds):
    whole = aggregate_summaries(seeds)
    assert whole["seeds"] == 3
    grpo = whole["methods"]["grpo"]["sets"]["in_domain"]
    values = [s["methods"]["grpo"]["sets"]["in_domain"]["pass_at_k"]["8"] for s in seeds]
    half = 4.302653 * stdev(values) / sqrt(3)
    assert grpo["pass_at_k"]["8"] == pytest.approx(fmean(values))
    lo, hi = grpo["ci95"]["pass_at_8"]
    assert (lo, hi) == pytest.approx((fmean(values) - half, fmean(values) + half))


def test_the_result_has_the_form_of_one_seed(seeds):
    whole = aggregate_summaries(seeds)
    one = seeds[0]["base"]["sets"]["in_domain"]
    many = whole["base"]["sets"]["in_domain"]
    assert set(many) == set(one)
    assert set(one["ci95"]) <= set(many["ci95"])
    assert sum(many["styles"].values()) == pytest.approx(1)
    assert comparison_table(whole).row_count == 9


def test_the_share_of_answers_that_were_cut_off_is_a_mean_too(seeds):
    for seed, share in zip(seeds, (0.1, 0.2, 0.6), strict=True):
        seed["base"]["sets"]["in_domain"]["cut_off"] = share
    whole = aggregate_summaries(seeds)["base"]["sets"]["in_domain"]
    assert whole["cut_off"] == pytest.approx(0.3)


def test_what_a_seed_does_not_know_stays_unknown(seeds):
    seeds[1]["base"]["sets"]["in_domain"]["keep"] = None
    whole = aggregate_summaries(seeds)["base"]["sets"]
    assert whole["in_domain"]["keep"] is None
    assert whole["in_domain"]["ci95"]["keep"] is None
    assert whole["arithmetic"]["effective_styles"] is None


def test_one_seed_has_means_and_no_intervals(seeds):
    whole = aggregate_summaries(seeds[:1])["base"]["sets"]["in_domain"]
    assert whole["mean"] == seeds[0]["base"]["sets"]["in_domain"]["mean"]
    assert set(whole["ci95"].values()) == {None}


def test_one_more_value_of_three_lies_within_t_times_the_root_of_four_thirds():
    lo, hi = prediction_interval([1.0, 2.0, 3.0])  # s = 1, t = 4.302653
    half = 4.302653 * sqrt(4 / 3)
    assert (lo, hi) == pytest.approx((2 - half, 2 + half))
    assert prediction_interval([1.0, 2.0, 3.0], lowest=0, highest=3) == (0, 3)


def test_a_new_value_lies_within_its_prediction_19_times_of_20():
    rng, tries = Random(0), 4000
    inside = 0
    for _ in range(tries):
        lo, hi = prediction_interval([rng.gauss(0, 1) for _ in range(5)])
        inside += lo <= rng.gauss(0, 1) <= hi
    # Exact for normal values; 4 standard deviations of 4000 tries.
    assert inside / tries == pytest.approx(0.95, abs=4 * sqrt(0.95 * 0.05 / tries))


def test_a_prediction_needs_two_values():
    with pytest.raises(DataError, match="at least two of them, got 1"):
        prediction_interval([0.5])


def test_an_interval_is_cut_at_what_is_possible():
    assert t_interval([0.5, 0.9], lowest=0.0, highest=1.0) == (0.0, 1.0)


def test_a_style_that_a_seed_never_showed_has_share_zero_there(seeds):
    for seed in seeds:
        seed["base"]["sets"]["in_domain"]["styles"] = {"plain": 1.0}
    seeds[0]["base"]["sets"]["in_domain"]["styles"] = {"cte": 1.0}
    shares = aggregate_summaries(seeds)["base"]["sets"]["in_domain"]["styles"]
    assert shares == pytest.approx({"cte": 1 / 3, "plain": 2 / 3})


def test_too_few_values_and_unlike_seeds_are_refused(seeds):
    with pytest.raises(DataError, match="at least two of them, got 1"):
        t_interval([0.5])
    with pytest.raises(DataError, match="no summaries"):
        aggregate_summaries([])
    with pytest.raises(DataError, match=r"differ in their methods: \['grpo', 'dph_f'\] and"):
        aggregate_summaries([*seeds, make_summary(["grpo"])])
