import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate import intervals
from dph.runs.evaluate.intervals import bootstrap, bootstrap_mean, paired_difference


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
