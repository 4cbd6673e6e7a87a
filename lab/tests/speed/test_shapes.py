import pytest

from lab.benchmarks.speed.shapes import LONG, STOPS, Shape, stop_probability


def test_the_stop_probability_gives_the_mean_of_a_cut_geometric_length():
    q, longest = stop_probability(20, 64), 64
    mean = sum(n * q * (1 - q) ** (n - 1) for n in range(1, longest))
    mean += longest * (1 - q) ** (longest - 1)
    assert mean == pytest.approx(20, abs=1e-6)


@pytest.mark.parametrize("mean", [1, 64, 100])
def test_a_mean_that_no_stop_probability_gives_is_refused(mean):
    with pytest.raises(ValueError, match="need 1 < mean < 64"):
        stop_probability(mean, 64)


def test_stop_tokens_are_so_many_that_their_share_is_the_stop_probability():
    stops = STOPS.stop_tokens(4096)
    assert len(stops) / 4096 == pytest.approx(stop_probability(20, 64), abs=1 / 4096)
    assert stops[0] == 1
    assert LONG.stop_tokens(4096) == (1,)


def test_a_shape_reads_as_it_is():
    shape = Shape(prompt=256, completion=64, prompts=4, mean=20)
    assert str(shape) == "prompt 256, completion 64 mean 20, 4 x 16"
    assert shape.rows == 64
