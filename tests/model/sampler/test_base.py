import pytest

from dph.errors import SettingsError
from dph.model.sampler.base import SamplingParameters


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0; use greedy"),
        ({"temperature": float("nan")}, "temperature must be above 0"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\], got 0.0"),
        ({"top_p": 1.01}, r"top_p must lie in \(0, 1\], got 1.01"),
    ],
)
def test_parameters_out_of_range_are_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        SamplingParameters(**({"max_tokens": 1, "stop_token_ids": ()} | changes))
