import subprocess
import sys
from itertools import combinations
from math import prod

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.metrics import pass_at_k, pass_at_k_curve


@pytest.mark.parametrize("correct", range(7))
@pytest.mark.parametrize("k", range(1, 7))
def test_pass_at_k_equals_the_average_over_all_subsets(correct, k):
    results = [True] * correct + [False] * (6 - correct)
    subsets = [any(subset) for subset in combinations(results, k)]
    assert pass_at_k(6, correct, k) == pytest.approx(sum(subsets) / len(subsets), abs=1e-15)


@pytest.mark.parametrize("n", [1, 7, 32, 1024])
def test_pass_at_1_is_the_fraction_of_correct_samples(n):
    assert [pass_at_k(n, c, 1) for c in range(n + 1)] == [c / n for c in range(n + 1)]


def test_a_small_value_keeps_its_digits_where_one_minus_a_ratio_would_lose_them():
    assert pass_at_k(10**17, 1, 1) == 1e-17


def test_the_curve_is_the_scalar_for_every_problem_up_to_1024_samples():
    correct = np.array([0, 1, 5, 512, 1000, 1023, 1024, 5])
    ks = [1, 2, 8, 256, 1024]
    curve = pass_at_k_curve(1024, correct, ks)
    assert list(curve) == ks
    for k in ks:
        expected = [pass_at_k(1024, int(c), k) for c in correct]
        np.testing.assert_allclose(curve[k], expected, rtol=0, atol=1e-12)


def test_the_curve_agrees_with_the_product_form():
    n, correct, k = 100, np.arange(101), 7
    product = [1 - prod(max(0, n - c - i) / (n - i) for i in range(k)) for c in correct]
    np.testing.assert_allclose(pass_at_k_curve(n, correct, [k])[k], product, atol=1e-12)


def test_the_curve_of_no_problem_is_empty():
    assert pass_at_k_curve(4, np.array([], dtype=int), [2])[2].shape == (0,)


@pytest.mark.parametrize("k", [0, -1, 9])
def test_a_k_outside_the_samples_is_refused(k):
    message = f"need 1 <= k <= samples, got k={k}, samples=8"
    with pytest.raises(SettingsError, match=message):
        pass_at_k(8, 2, k)
    with pytest.raises(ValueError, match=message):
        pass_at_k_curve(8, np.array([2]), [k])


@pytest.mark.parametrize("correct", [-1, 9])
def test_more_correct_samples_than_samples_are_refused(correct):
    with pytest.raises(DataError, match=f"got correct={correct}, samples=8"):
        pass_at_k(8, correct, 1)


@pytest.mark.parametrize(
    "statements",
    [
        "from dph.runs.evaluate import pass_at_k",
        "from dph.runs.evaluate.metrics import pass_at_k",
        "import dph.runs.evaluate.metrics; from dph.runs.evaluate import pass_at_k",
        "from dph.runs.evaluate.metrics import pass_at_k as f\n"
        "from dph.runs.evaluate import pass_at_k",
        "from dph.runs.evaluate import pass_at_k as f\n"
        "from dph.runs.evaluate.metrics import pass_at_k",
        "import dph.runs.evaluate.rewards_file; from dph.runs.evaluate import pass_at_k",
    ],
)
def test_pass_at_k_is_the_function_however_it_is_imported(statements):
    code = f"{statements}; assert pass_at_k(4, 1, 2) == 0.5"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
