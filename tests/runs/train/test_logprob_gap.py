import logging

import pytest

from dph.runs.train.policy_rows import LogprobGap, logprob_gap


def test_the_gap_is_the_mean_and_largest_difference_over_all_tokens():
    gap = logprob_gap([(-1.0, -2.0), (-3.0,)], [(-1.0, -2.5), (-2.0,)], dtype="bfloat16")
    assert gap == LogprobGap(mean=0.5, largest=1.0)


def test_without_tokens_there_is_no_gap():
    assert logprob_gap([(), ()], [(), ()], dtype="float32") is None


@pytest.mark.parametrize(
    ("other", "dtype", "warns"),
    [
        (-1.0005, "float32", False),
        (-1.01, "float32", True),
        (-1.01, "bfloat16", False),
        (float("nan"), "bfloat16", True),
    ],
)
def test_more_than_rounding_is_warned_of(caplog, other, dtype, warns):
    with caplog.at_level(logging.WARNING, logger="dph"):
        logprob_gap([(-1.0,)], [(other,)], dtype=dtype)
    assert bool(caplog.records) == warns
    if warns:
        assert "log-probs of sampler and trainer differ" in caplog.text
