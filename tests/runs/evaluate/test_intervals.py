from math import exp, lgamma

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate import intervals
from dph.runs.evaluate.intervals import (
    Band,
    bootstrap,
    bootstrap_mean,
    gaussian_band,
    paired_difference,
    powers_of_two,
    problem_draws,
    simultaneous_band,
)
from dph.runs.evaluate.metrics import pass_at_k


def test_an_interval_of_95_percent_covers_the_true_mean_in_about_95_percent_of_cases():
    rng = np.random.default_rng(0)
    covered = 0
    for case in range(400):
        lo, hi = bootstrap_mean(rng.random(60), seed=case, resamples=400)
        covered += lo <= 0.5 <= hi
    # 3 standard errors of a binomial share at 0.95, 400 cases: 0.033; the bootstrap of 60 values
    # is itself short by about 0.01.
    assert 0.95 - 0.045 < covered / 400 < 0.95 + 0.033


def test_the_same_seed_gives_the_same_interval_whatever_fits_in_memory(monkeypatch):
    values = np.random.default_rng(3).random(30)
    whole = bootstrap_mean(values, seed=5, resamples=101)
    monkeypatch.setattr(intervals, "_BLOCK", 70)
    assert bootstrap_mean(values, seed=5, resamples=101) == whole
    assert bootstrap_mean(values, seed=6, resamples=101) != whole


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        ([1], (0.025, 1)),  # one problem says hardly anything
        ([0], (0, 0.975)),
        ([0.3], (0.0075, 0.9825)),
        ([1.0] * 10, (0.6915, 1)),  # 0.025^(1/10) = 0.6915, as by Clopper and Pearson
        ([0.0] * 10, (0, 0.3085)),
        ([0.5] * 10, (0.3458, 0.6542)),
        ([7.0] * 10, (7, 7)),  # no bounds are known for such values
    ],
)
def test_equal_values_have_an_exact_interval(values, interval):
    assert bootstrap_mean(np.array(values, dtype=float), seed=0) == pytest.approx(
        interval, abs=5e-5
    )


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_the_exact_interval_holds_the_mean_as_often_as_it_says(share):
    # All n answers are alike with chance share^n + (1 - share)^n; of those cases the interval may
    # miss the mean in no more than 5% of all cases.
    for n in (1, 2, 5, 20, 100):
        missed = 0.0
        for value, chance in ((1.0, share**n), (0.0, (1 - share) ** n)):
            lo, hi = bootstrap_mean(np.full(n, value), seed=0)
            missed += 0.0 if lo <= share <= hi else chance
        assert missed <= 0.05


def test_a_difference_that_is_the_same_everywhere_has_an_exact_interval():
    found = paired_difference(np.ones(10), np.full(10, 0.5), seed=0)
    assert (found.mean, found.lo, found.hi) == pytest.approx((0.5, 0.0373, 0.6543), abs=5e-4)
    one = paired_difference(np.ones(1), np.zeros(1), seed=0)
    assert one.lo < 0 < one.hi
    values = np.random.default_rng(5).random(20)
    difference = paired_difference(values, values, seed=0)
    assert (difference.mean, difference.lo, difference.hi) == (0, 0, 0)


def test_a_paired_difference_is_narrower_than_the_means_when_both_agree_on_what_is_hard():
    rng = np.random.default_rng(4)
    hardness = rng.random(100)
    a, b = hardness + 0.05 + 0.02 * rng.random(100), hardness
    paired = paired_difference(a, b, seed=0)
    assert paired.mean == pytest.approx((a - b).mean())
    assert 0 < paired.lo < paired.mean < paired.hi
    widths = [hi - lo for lo, hi in (bootstrap_mean(v, seed=0) for v in (a, b))]
    assert paired.hi - paired.lo < 0.1 * min(widths)


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([], {}, "at least one problem"),
        ([0.5, np.nan], {}, "finite values"),
        ([0.0, 1.0], {"resamples": 0}, "got 0"),
        ([0.0, 1.0], {"level": 1.0}, r"\(0, 1\), got 1.0"),
    ],
)
def test_what_has_no_interval_is_refused(values, settings, message):
    with pytest.raises((DataError, SettingsError), match=message):
        bootstrap_mean(np.array(values), seed=0, **settings)
    with pytest.raises(DataError, match="got 2 and 3"):
        paired_difference(np.zeros(2), np.zeros(3), seed=0)


def test_a_statistic_of_resamples_may_be_a_mean_or_have_no_value_in_some():
    values = np.random.default_rng(4).random(25)
    drawn = bootstrap(lambda resamples: values[resamples].mean(axis=1), 25, seed=9)
    assert drawn == bootstrap_mean(values, seed=9)

    def share_of_the_first(resamples):
        there = (resamples == 0).any(axis=1)
        return np.where(there, 1.0, np.nan)

    assert bootstrap(share_of_the_first, 3, seed=0) == (1.0, 1.0)
    with pytest.raises(DataError, match="no resample has a value"):
        bootstrap(lambda resamples: np.full(len(resamples), np.nan), 3, seed=0)


SAMPLES, KS, DRAWS = 16, (1, 2, 4, 8, 16), 2000
# Worlds of problems by kind: share, and the Beta distributions of the base's and the trained
# model's success rates; None is the base's own rate.
CROSSING = [(0.6, (2, 4), (6, 4)), (0.4, (0.6, 6), (0.15, 6))]  # hard problems are given up
UNCHANGED = [(1.0, (0.5, 1), None)]
RARE_LOSS = [(0.9, (5, 2), (9, 2)), (0.1, (1, 3), (1e-9, 1))]  # a tenth of them is lost


def true_differences(world):
    """Exact: E[(1 - p)^k] = B(a, b + k) / B(a, b) of p from Beta(a, b)."""

    def failing(beta, k):
        a, b = beta
        return exp(lgamma(b + k) + lgamma(a + b) - lgamma(a + b + k) - lgamma(b))

    return {k: sum(w * (failing(p, k) - failing(q or p, k)) for w, p, q in world) for k in KS}


def drawn_differences(world, problems, rng):
    """Of as many sets of problems as there are draws, one after another."""
    kinds = rng.choice(len(world), (DRAWS, problems), p=[share for share, _, _ in world])
    before, after = np.zeros_like(kinds), np.zeros_like(kinds)
    for kind, (_, base, model) in enumerate(world):
        rates = rng.beta(*base, size=kinds.shape)
        later = rates if model is None else rng.beta(*model, size=kinds.shape)
        before = np.where(kinds == kind, rng.binomial(SAMPLES, rates), before)
        after = np.where(kinds == kind, rng.binomial(SAMPLES, later), after)
    of_count = {k: pass_at_k(SAMPLES, np.arange(SAMPLES + 1), k) for k in KS}
    for b, a in zip(before, after, strict=True):
        yield {k: values[a] - values[b] for k, values in of_count.items()}


def simulated(world, problems, make):
    """Shares of sets of problems: truth within the band at all k; a false k in a first-loss set."""
    truth, rng = true_differences(world), np.random.default_rng(problems)
    covered = false = 0
    for seed, apart in enumerate(drawn_differences(world, problems, rng)):
        band = make(apart, seed=seed)
        covered += all(low <= truth[k] <= high for k, (low, high) in band.bounds.items())
        above = any(truth[k] <= 1e-12 for k in band.above)
        false += above or any(truth[k] >= -1e-12 for k in band.below)
    return covered / DRAWS, false / DRAWS


ERROR = 3 * (0.95 * 0.05 / DRAWS) ** 0.5
"""Three standard errors of a coverage of 95% in the simulated sets: 0.015."""


@pytest.mark.slow
def test_the_band_holds_at_all_k_together_and_the_sets_err_no_oftener_than_they_say():
    covered, false = simulated(CROSSING, 100, simultaneous_band)
    assert covered == pytest.approx(0.95, abs=ERROR)
    assert false <= 0.05 + ERROR
    covered, false = simulated(UNCHANGED, 50, simultaneous_band)
    assert covered >= 0.95 - ERROR
    assert false <= 0.05 + ERROR  # every k that is named would be an error


@pytest.mark.slow
@pytest.mark.parametrize(("problems", "ours", "peer"), [(20, 0.872, 0.767), (50, 0.934, 0.877)])
def test_a_rare_loss_is_covered_less_often_with_few_problems(problems, ours, peer):
    # Of 20 problems none is of the lost tenth in one set of eight, 0.9^20.
    for make, known in ((simultaneous_band, ours), (gaussian_band, peer)):
        covered, false = simulated(RARE_LOSS, problems, make)
        assert covered == pytest.approx(known, abs=3 * (known * (1 - known) / DRAWS) ** 0.5)
        assert false <= 0.05 + ERROR


def apart(problems=40, seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.beta(1, 5, problems)
    return {
        k: pass_at_k(8, rng.binomial(8, rates), k) - pass_at_k(8, rng.binomial(8, rates), k)
        for k in (1, 2, 4, 8)
    }


def test_as_many_resamples_as_said_are_within_the_band_at_all_k():
    values = np.stack([*apart().values()], axis=1)
    (indices,) = problem_draws(40, 400, 7)
    drawn = values[indices]  # resample, problem, k
    units = values.std(axis=0, ddof=1) / drawn.std(axis=1, ddof=1)
    distance = np.abs(drawn.mean(axis=1) - values.mean(axis=0)) * units
    band = simultaneous_band(apart(), seed=7, resamples=400)
    high = np.array([high for _, high in band.bounds.values()])
    inside = distance <= high - values.mean(axis=0) + 1e-12
    assert 0.95 <= inside.all(axis=1).mean() <= 0.96
    # Every k is left about as often; a single critical value would not be.
    assert np.ptp(inside.mean(axis=0)) <= 0.01


def test_a_k_at_which_few_problems_differ_has_no_bounds_and_widens_no_other():
    sparse = np.zeros(40)
    sparse[:3] = 0.25
    one = {1: apart()[1]}
    both = simultaneous_band(one | {2: sparse}, seed=0).bounds
    assert both[2] == (-1.0, 1.0)
    assert both[1] == pytest.approx(simultaneous_band(one, seed=0).bounds[1], abs=1e-12)


@pytest.mark.parametrize("make", [simultaneous_band, gaussian_band])
@pytest.mark.parametrize("values", [np.zeros(30), np.full(30, 0.1), np.array([0.5])])
def test_equal_differences_have_no_bounds(make, values):
    band = make({1: values, 2: values}, seed=0)
    assert band.bounds == {1: (-1.0, 1.0), 2: (-1.0, 1.0)}
    assert (band.not_above, band.below) == ((1, 2), ())


def test_the_seed_and_the_level_are_arguments():
    low, high = simultaneous_band(apart(), seed=0).bounds[1]
    assert simultaneous_band(apart(), seed=0).bounds[1] == (low, high)
    assert simultaneous_band(apart(), seed=1).bounds[1] != (low, high)
    narrow = simultaneous_band(apart(), seed=0, level=0.5).bounds[1]
    assert low < narrow[0] < narrow[1] < high


def test_the_peer_is_what_its_own_package_computes():
    # passk-inference 0.3.1: compare(base, 8, model, 8, ks=[1, 2, 4, 8]).
    base, model = np.array([0, 1, 3, 4, 8, 2, 0]), np.array([1, 4, 8, 6, 8, 0, 0])
    values = {k: pass_at_k(8, model, k) - pass_at_k(8, base, k) for k in (1, 2, 4, 8)}
    band = gaussian_band(values, seed=0)
    found = {
        1: (-0.072504728896435, 0.39393330032500645),
        2: (-0.13950441444046197, 0.3844023736241355),
        4: (-0.30774327101934607, 0.38937592408057053),
        8: (-0.4706592738976603, 0.4706592738976603),
    }
    for k, bounds in band.bounds.items():
        assert bounds == pytest.approx(found[k], abs=1e-12)


def test_the_usual_k_are_the_powers_of_two_up_to_the_largest():
    assert [powers_of_two(largest) for largest in (1, 3, 4)] == [[1], [1, 2], [1, 2, 4]]


UP, DOWN, OPEN = (0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((UP, UP, OPEN, DOWN), "above the base up to k=2; below it from k=8 on"),
        ((OPEN, UP, OPEN, OPEN), "above the base at k=2; below it at none"),
        ((DOWN, OPEN, DOWN, OPEN), "above the base at none; below it at k=1, 4"),
        ((UP, UP, UP, UP), "above the base at all; below it at none"),
    ],
)
def test_the_sets_are_said_in_a_sentence(bounds, said):
    band = Band(bounds=dict(zip((1, 2, 4, 8), bounds, strict=True)))
    assert band.sentence() == f"Of these k, {said} (95%, all k together)."
    sets = {"above": band.above, "below": band.below}
    for name, signs in (("above", UP), ("below", DOWN)):
        assert sets[name] == tuple(k for k, each in band.bounds.items() if each == signs)
    assert set(band.not_above) == {1, 2, 4, 8} - set(band.above)
    document = {"not_above": [*band.not_above], "below": [*band.below], "confidence": 0.95}
    assert band.document() == document
