import pytest

from dph.errors import SettingsError
from dph_corpus.base.recipes import WarmupStableDecay


def test_opencoders_rates_fall_from_3e_4_to_1e_5_by_the_same_factor_each_step():
    rates = WarmupStableDecay(warmup=2000, stable=1000, decay=500, final=1e-5 / 3e-4)
    assert 3e-4 * rates(0) == pytest.approx(3e-4 / 2000)
    assert rates(1999) == rates(2000) == rates(2999) == 1.0
    factors = {round(rates(step + 1) / rates(step), 12) for step in range(3000, 3499)}
    assert factors == {round((1 / 30) ** (1 / 500), 12)}
    assert 3e-4 * rates(rates.steps - 1) == pytest.approx(1e-5)
    assert rates(rates.steps + 7) == rates(rates.steps - 1)


def test_without_annealing_the_rate_stays():
    rates = WarmupStableDecay(warmup=0, stable=3, decay=0, final=0.5)
    assert [rates(step) for step in range(5)] == [1.0] * 5


@pytest.mark.parametrize(
    ("change", "said"), [({"warmup": -1}, "warmup=-1"), ({"final": 0.0}, r"\(0, 1\], got 0.0")]
)
def test_what_is_out_of_range_is_told_with_its_value(change, said):
    with pytest.raises(SettingsError, match=said):
        WarmupStableDecay(**({"warmup": 1, "stable": 1, "decay": 1, "final": 0.1} | change))
