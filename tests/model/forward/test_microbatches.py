from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import SettingsError
from dph.model.forward import prefix_tree as module
from dph.model.forward.packing import pack
from dph.model.forward.prefix_tree import fed, microbatches, prefix_forest


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 200))
def test_rows_come_once_longest_first_in_batches_as_large_as_the_budget_allows(lengths, budget):
    batches = microbatches(lengths, token_budget=budget)
    flat = [row for batch in batches for row in batch]
    assert flat == sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] <= budget
    for batch, after in pairwise(batches):
        assert (len(batch) + 1) * lengths[batch[0]] > budget
        assert after


@pytest.mark.parametrize("plan", [microbatches, partial(module.packed_microbatches, [[1]])])
def test_a_budget_below_one_is_refused(plan):
    with pytest.raises(SettingsError, match="token_budget must be at least 1, got 0"):
        plan([[1]] if isinstance(plan, partial) else [1], token_budget=0)


GROUPS = [(60, [3, 3, 4]), (20, [5, 1]), (90, [2]), (40, [4] * 12), (1, [0, 1])]


def packed_rows():
    """Prompts that share nothing with each other, answers that share nothing."""
    prompts = [[index] * size for index, (size, lengths) in enumerate(GROUPS) for _ in lengths]
    answers = [length for _, lengths in GROUPS for length in lengths]
    return prompts, [[100 + row] * length for row, length in enumerate(answers)]


def schema_rows():
    """Answers to questions on three schemas, and one answer that is given often."""
    rows = [
        ([schema] * 50 + [10 + question] * 20, [30 + answer] * 8)
        for schema in range(3)
        for question in range(4)
        for answer in range(5)
    ]
    rows += [([1] * 50 + [19], [7, 7, 7])] * 30
    return [prompt for prompt, _ in rows], [completion for _, completion in rows]


def packed_microbatches(prompts, completions, **options):
    """The rows of the batches, whose trees must be those that a pack would build."""
    batches = module.packed_microbatches(prompts, completions, **options)
    for rows, forest in batches:
        some = [prompts[row] for row in rows], [completions[row] for row in rows]
        assert forest == prefix_forest(fed(*some))
    return [batch.rows for batch in batches]


def tokens_of(batch, prompts, completions):
    some = [prompts[row] for row in batch], [completions[row] for row in batch]
    return len(pack(*some, device=torch.device("cpu")).ids)


@pytest.mark.parametrize("make", [packed_rows, schema_rows])
@pytest.mark.parametrize("budget", [1, 60, 75, 100, 300, 1000])
def test_packed_batches_hold_every_row_once_and_fit_unless_a_row_does_not(make, budget):
    prompts, completions = make()
    batches = packed_microbatches(prompts, completions, token_budget=budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(prompts)))
    for batch in batches:
        assert len(batch) == 1 or tokens_of(batch, prompts, completions) <= budget
        assert len(batch) == 1 or sum(len(completions[row]) for row in batch) <= budget


def test_rows_of_a_prompt_stay_together_where_they_fit_and_the_largest_batch_comes_first():
    prompts, completions = packed_rows()
    for batch in packed_microbatches(prompts, completions, token_budget=100):
        for row in batch:
            twins = [other for other, prompt in enumerate(prompts) if prompt == prompts[row]]
            assert set(twins) <= set(batch)
    batches = packed_microbatches(prompts, completions, token_budget=95)
    sizes = [tokens_of(batch, prompts, completions) for batch in batches]
    assert len(sizes) == 3
    assert sizes[0] == max(sizes)


def test_questions_on_a_schema_stay_together():
    prompts, completions = schema_rows()
    batches = packed_microbatches(prompts, completions, token_budget=350)
    # a schema with its questions and answers: 50 + 4 * 20 + 20 * 7 = 270, the second one 3 more
    families = [{prompts[row][0] for row in batch} for batch in batches]
    assert sorted(families, key=min) == [{0}, {1}, {2}]


def test_a_schema_with_too_many_questions_is_repeated_as_seldom_as_possible():
    prompts, completions = schema_rows()
    batches = packed_microbatches(prompts[:20], completions[:20], token_budget=160)
    # a question with its answers takes 20 + 5 * 7 = 55 of the 110 beside the schema
    assert [len(batch) for batch in batches] == [10, 10]


def test_a_batch_fits_though_few_rows_share_less_than_many():
    # two rows share 35 tokens only among many: alone they would save 35 of 2,000
    prompts, completions = [[7] * 35] * 100, [[100 + row] * 1001 for row in range(100)]
    batches = packed_microbatches(prompts, completions, token_budget=2037)
    assert sorted(row for batch in batches for row in batch) == list(range(100))
    assert max(tokens_of(batch, prompts, completions) for batch in batches) <= 2037
