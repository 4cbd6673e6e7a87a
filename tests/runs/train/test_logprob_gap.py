import logging

import pytest

from dph.runs.train.policy_rows import logprob_gap, warn_of_gap
from dph.runs.train.updating import LogprobGap


def test_the_gap_is_the_mean_and_largest_difference_over_all_tokens():
    gap = logprob_gap([(-1.0, -2.0), (-3.0,)], [(-1.0, -2.5), (-2.0,)])
    assert gap == LogprobGap(mean=0.5, largest=1.0)


def test_without_tokens_there_is_no_gap_and_no_warning(caplog):
    assert logprob_gap([(), ()], [(), ()]) is None
    with caplog.at_level(logging.WARNING, logger="dph"):
        warn_of_gap(None, dtype="float32")
    assert not caplog.records


@pytest.mark.parametrize(
    ("mean", "dtype", "warns"),
    [
        (0.0005, "float32", False),
        (0.01, "float32", True),
        (0.01, "bfloat16", False),
        (float("nan"), "bfloat16", True),
    ],
)
def test_more_than_rounding_is_warned_of(caplog, mean, dtype, warns):
    with caplog.at_level(logging.WARNING, logger="dph"):
        warn_of_gap(LogprobGap(mean=mean, largest=mean), dtype=dtype)
    assert bool(caplog.records) == warns
    if warns:
        assert "log-probs of sampler and trainer differ" in caplog.text
