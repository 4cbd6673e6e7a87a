from math import exp, lgamma

import numpy as np
import pytest

from dph.runs.evaluate.first_loss import (
    Band,
    differences,
    gaussian_band,
    powers_of_two,
    simultaneous_band,
)
from dph.runs.evaluate.intervals import problem_draws
from dph.runs.evaluate.metrics import pass_at_k

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


def test_differences_and_the_usual_k_go_by_name():
    model = {"mean": np.array([1.0]), "pass_at_2": np.array([0.75])}
    base = {"mean": np.array([0.5]), "pass_at_2": np.array([1.0])}
    assert differences(model, base) == {2: np.array([-0.25])}
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
