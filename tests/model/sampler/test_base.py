import pytest

from dph.errors import SettingsError
from dph.model.prompts import common_length
from dph.model.sampler.base import LEAST_SHARED, SamplingParameters, families


def test_parameters_out_of_range_are_refused():
    for changes, message in (
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0; use greedy"),
        ({"temperature": float("nan")}, "temperature must be above 0"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\], got 0.0"),
        ({"top_p": 1.01}, r"top_p must lie in \(0, 1\], got 1.01"),
    ):
        with pytest.raises(SettingsError, match=message):
            SamplingParameters(**({"max_tokens": 1, "stop_token_ids": ()} | changes))


def test_what_is_alike_ends_at_the_first_difference_or_with_the_shorter_one():
    assert common_length((1, 2, 3), (1, 2, 3, 4)) == common_length((1, 2, 3, 4), (1, 2, 3, 5)) == 3
    assert common_length((), (1,)) == common_length((2,), (1,)) == 0


def test_a_family_has_half_and_more_in_common_and_enough_tokens():
    schema = tuple(range(LEAST_SHARED))
    alike = [(*schema, 100, *range(200, 200 + n)) for n in (0, 15)]
    longer = (*schema, 101, *range(300, 300 + LEAST_SHARED))  # 33 tokens: less than half is alike
    assert families([alike[1], longer, alike[0], alike[0]]) == [alike, [longer]]
    short = [(*schema[1:], 100), (*schema[1:], 101)]
    assert families(short) == [[prompt] for prompt in short]
    assert families([]) == []
