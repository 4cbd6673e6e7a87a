"""The arithmetic of what a consolidation will take."""

import pytest

from dph.runs.consolidation import SmallConsolidation, planned_cost


def small(*, answers=80, tokens=4000, store_seconds=8.0, update_seconds=3.0):
    return SmallConsolidation(
        groups=(),
        answers=answers,
        tokens=tokens,
        untimed=(16, 800),
        store_seconds=store_seconds,
        update_seconds=update_seconds,
    )


def test_tokens_at_the_measured_rate_and_updates_of_the_measured_length():
    # 50 tokens an answer, 500 a second: 100 prompts x 16 = 1,600 answers = 80,000 tokens = 160 s;
    # 10 updates of 3 s = 30 s; together 190 s.
    found = planned_cost(small(), prompts=100, answers=16, updates=10, rows=64)
    assert (found.prompts, found.answers, found.tokens) == (100, 1600, 80_000)
    assert found.tokens_per_second == 500
    assert (found.updates, found.seconds_per_update) == (10, 3.0)
    assert found.minutes == pytest.approx(190 / 60)


def test_an_update_is_stretched_where_the_small_store_holds_fewer_rows():
    # An update of 250 rows takes 16 prompts of 16 answers whole, 256 rows; 80 were learnt from.
    found = planned_cost(small(), prompts=100, answers=16, updates=1, rows=250)
    assert found.seconds_per_update == pytest.approx(3.0 * 256 / 80)


def test_an_update_learns_from_no_more_than_there_is():
    # 6 prompts x 16 = 96 rows are all that there will be.
    found = planned_cost(small(), prompts=6, answers=16, updates=1, rows=250)
    assert found.seconds_per_update == pytest.approx(3.0 * 96 / 80)
