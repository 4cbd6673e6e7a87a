from math import sqrt
from statistics import fmean, stdev

import pytest

from dph.errors import DataError, SettingsError
from dph.results.over_seeds import aggregate_sets, mean_over_seeds, t_quantile
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
