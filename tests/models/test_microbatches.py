import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import SettingsError
from dph.models.microbatches import microbatches

lengths_strategy = st.lists(st.integers(0, 40), max_size=40)


@given(lengths_strategy, st.integers(1, 200))
def test_every_row_is_in_exactly_one_batch(lengths, budget):
    batches = microbatches(lengths, token_budget=budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    assert all(batches)


@given(lengths_strategy, st.integers(1, 200))
def test_no_batch_is_over_the_budget_unless_it_is_one_long_row(lengths, budget):
    for batch in microbatches(lengths, token_budget=budget):
        area = len(batch) * max(lengths[row] for row in batch)
        assert area <= budget or len(batch) == 1


@given(lengths_strategy, st.integers(1, 200))
def test_rows_come_longest_first_and_equal_ones_in_their_own_order(lengths, budget):
    flat = [row for batch in microbatches(lengths, token_budget=budget) for row in batch]
    assert flat == sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))


@given(lengths_strategy, st.integers(1, 200))
def test_a_batch_is_closed_only_when_the_next_row_does_not_fit(lengths, budget):
    batches = microbatches(lengths, token_budget=budget)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * lengths[batch[0]] > budget


def test_a_budget_below_one_is_refused():
    with pytest.raises(SettingsError, match="token_budget must be at least 1, got 0"):
        microbatches([1], token_budget=0)
