from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from counting_device import CountingDevice
from dph.errors import SettingsError
from dph.model.forward import packing
from dph.model.forward.packing import (
    LEAST_SAVED,
    Branches,
    Span,
    fed,
    microbatches,
    pack,
    prefix_forest,
    to_device,
)

CPU = torch.device("cpu")

TOKENS = st.integers(0, 2).map(lambda token: 257 * token)
ROWS = st.lists(st.lists(TOKENS, min_size=1, max_size=12), min_size=1, max_size=14)


def paths(forest, count):
    """Each row's nodes, from the root down."""
    found = [[] for _ in range(count)]

    def walk(nodes):
        for node in nodes:
            for row in node.rows:
                found[row].append(node)
            walk(node.children)

    walk(forest)
    return found


def tokens_of(forest):
    return sum(root.tokens for root in forest)


def depth(forest):
    return max((1 + depth(node.children) for node in forest), default=0)


@given(rows=ROWS, least_saved=st.sampled_from([0, 1, 4, LEAST_SAVED]))
def test_every_row_is_the_tokens_on_its_path_and_shares_them_with_its_like_only(rows, least_saved):
    forest = prefix_forest(rows, least_saved=least_saved)
    for row, path in zip(rows, paths(forest, len(rows)), strict=True):
        assert path[0].start == 0
        assert [a.end for a in path[:-1]] == [b.start for b in path[1:]]
        assert path[-1].end == len(row)
        for node in path:
            assert all(rows[i][: node.end] == row[: node.end] for i in node.rows)
            assert node.rows == sorted(node.rows)
            assert node.children == sorted(node.children, key=lambda child: child.rows[0])
    assert forest == sorted(forest, key=lambda node: node.rows[0])
    assert tokens_of(forest) <= sum(map(len, rows))


@given(rows=ROWS)
def test_what_is_alike_stands_once_at_least_saved_0(rows):
    forest = prefix_forest(rows, least_saved=0)
    prefixes = {tuple(row[: n + 1]) for row in rows for n in range(len(row))}
    assert tokens_of(forest) == len(prefixes) or depth(forest) > 32


def test_sharing_has_to_save_more_than_it_costs_what_goes_on():
    def shared(prompt, longer, answers=()):
        prompts = [[7] * prompt + [i] * longer for i in range(1, 5)]
        rows = [p + [9 + i] * 30 for p in prompts for i in answers] or prompts
        return len(prefix_forest(rows)) == 1

    # 3 * 8 = 24 tokens saved, against 16 and a 32nd of the 4 * 64 tokens below
    assert shared(8, 64)
    assert not shared(8, 65)
    assert not shared(5, 1)
    # 3 * 24 = 72 tokens saved, against 16 and a 32nd of the 4 * (200 + 8 * 30) = 1,760 below:
    # what groups of alike rows would save by themselves does not count.
    assert shared(24, 200, range(8))
    assert not shared(23, 200, range(8))


def test_there_is_a_depth_that_no_tree_passes():
    rows = [[1] * n for n in range(1, 100)]
    forest = prefix_forest(rows, least_saved=0)
    assert depth(forest) == 33  # 32 shared nodes, and what is left of each row
    assert [path[-1].end for path in paths(forest, 99)] == list(range(1, 100))


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


def test_a_budget_below_one_is_refused():
    with pytest.raises(SettingsError, match="token_budget must be at least 1, got 0"):
        microbatches([1], token_budget=0)


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
    batches = packing.packed_microbatches(prompts, completions, **options)
    for rows, forest in batches:
        some = [prompts[row] for row in rows], [completions[row] for row in rows]
        assert forest == prefix_forest(fed(*some))
    return [batch.rows for batch in batches]


def packed_tokens(batch, prompts, completions):
    some = [prompts[row] for row in batch], [completions[row] for row in batch]
    return len(pack(*some, device=CPU).ids)


@pytest.mark.parametrize("make", [packed_rows, schema_rows])
@pytest.mark.parametrize("budget", [1, 60, 75, 100, 300, 1000])
def test_packed_batches_hold_every_row_once_and_fit_unless_a_row_does_not(make, budget):
    prompts, completions = make()
    batches = packed_microbatches(prompts, completions, token_budget=budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(prompts)))
    for batch in batches:
        assert len(batch) == 1 or packed_tokens(batch, prompts, completions) <= budget
        assert len(batch) == 1 or sum(len(completions[row]) for row in batch) <= budget


def test_rows_of_a_prompt_or_a_schema_stay_together_and_the_largest_batch_comes_first():
    prompts, completions = packed_rows()
    for batch in packed_microbatches(prompts, completions, token_budget=100):
        for row in batch:
            twins = [other for other, prompt in enumerate(prompts) if prompt == prompts[row]]
            assert set(twins) <= set(batch)
    batches = packed_microbatches(prompts, completions, token_budget=95)
    sizes = [packed_tokens(batch, prompts, completions) for batch in batches]
    assert len(sizes) == 3
    assert sizes[0] == max(sizes)
    prompts, completions = schema_rows()
    batches = packed_microbatches(prompts, completions, token_budget=350)
    # a schema with its questions and answers: 50 + 4 * 20 + 20 * 7 = 270, the second one 3 more
    families = [{prompts[row][0] for row in batch} for batch in batches]
    assert sorted(families, key=min) == [{0}, {1}, {2}]
    batches = packed_microbatches(prompts[:20], completions[:20], token_budget=160)
    # a question with its answers takes 20 + 5 * 7 = 55 of the 110 that the schema leaves
    assert [len(batch) for batch in batches] == [10, 10]


def test_a_batch_fits_though_few_rows_share_less_than_many():
    # two rows share 35 tokens only among many: alone they would save 35 of 2,000
    prompts, completions = [[7] * 35] * 100, [[100 + row] * 1001 for row in range(100)]
    batches = packed_microbatches(prompts, completions, token_budget=2037)
    assert sorted(row for batch in batches for row in batch) == list(range(100))
    assert max(packed_tokens(batch, prompts, completions) for batch in batches) <= 2037


def packed_whole(prompts, completions):
    return pack(prompts, completions, device=CPU, least_saved=0)


def test_a_shared_prompt_stands_once_and_its_completions_go_on_where_it_ends():
    rows = packed_whole([[5, 6, 7], [5, 6, 7]], [[1, 2, 3], [4, 9]])
    assert rows.ids.tolist() == [5, 6, 7, 1, 2, 4]
    assert rows.positions.tolist() == [0, 1, 2, 3, 4, 3]
    assert rows.sequences == (Span(0, 3), Span(3, 2), Span(5, 1))
    assert rows.levels == ((Branches(Span(0, 3), Span(3, 3)),),)
    assert rows.sources.tolist() == [2, 3, 4, 2, 5]
    assert rows.targets.tolist() == [1, 2, 3, 4, 9]
    assert rows.mask.tolist() == [[True] * 3, [True, True, False]]
    assert rows.longest == 5


def test_a_prompt_of_one_row_is_one_stretch_and_without_tokens_to_feed_nothing_is_shared():
    rows = packed_whole([[5, 6]], [[1, 2, 3]])
    assert rows.ids.tolist() == [5, 6, 1, 2]
    assert rows.sequences == (Span(0, 4),)
    assert rows.levels == ()
    assert rows.sources.tolist() == [1, 2, 3]
    rows = packed_whole([[5, 6], [5, 6]], [[1], []])
    assert (rows.ids.tolist(), rows.levels, rows.sources.tolist()) == ([5, 6], (), [1])


def test_every_target_is_predicted_from_the_tokens_before_it():
    prompts = [[5, 6], [7], [5, 6], [5, 6], [8, 8, 8]]
    completions = [[1, 2, 3], [4, 4], [9], [], [2, 1, 2, 1]]
    rows = packed_whole(prompts, completions)
    longer = rows.mask.sum(dim=1).tolist()
    assert longer == [3, 2, 1, 0, 4]
    places = iter(zip(rows.sources.tolist(), rows.targets.tolist(), strict=True))
    for prompt, completion in zip(prompts, completions, strict=True):
        for index, token in enumerate(completion):
            source, target = next(places)
            assert target == token
            assert rows.ids[source] == [*prompt, *completion][len(prompt) + index - 1]
            assert rows.positions[source] == len(prompt) + index - 1


def test_a_schema_that_prompts_share_stands_once_and_all_that_goes_on_from_it_sees_it():
    prompts = [[5, 6, 7], [5, 6, 7], [5, 6, 8], [9]]
    rows = packed_whole(prompts, [[1, 1], [2, 1], [3, 1], [4, 1]])
    assert rows.ids.tolist() == [5, 6, 9, 4, 7, 8, 3, 1, 2]
    assert rows.positions.tolist() == [0, 1, 0, 1, 2, 2, 3, 3, 3]
    schema, question = Branches(Span(0, 2), Span(4, 5)), Branches(Span(4, 1), Span(7, 2))
    assert rows.levels == ((schema,), (question,))
    assert rows.sources.tolist() == [4, 7, 4, 8, 5, 6, 2, 3]


def test_answers_that_begin_alike_share_that_too_and_a_few_tokens_only_stay_apart():
    rows = packed_whole([[5]] * 3, [[1, 2, 3], [1, 2, 3], [1, 2, 4, 4]])
    assert rows.ids.tolist() == [5, 1, 2, 4]
    assert rows.sources.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 3]
    assert rows.targets.tolist() == [1, 2, 3, 1, 2, 3, 1, 2, 4, 4]
    for prompt, packed in ((15, 32), (17, 19)):
        rows = pack([[5] * prompt] * 2, [[1, 2], [3, 4]], device=CPU)
        assert len(rows.ids) == packed


TABLES = [
    np.arange(5, dtype=np.int32),
    np.array([[True, False], [False, True], [True, True]]),
    np.zeros((0, 4), dtype=np.int64),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
    np.array(2.5),
    np.arange(3),
]


def check(tensors):
    for table, tensor in zip(TABLES, tensors, strict=True):
        assert tensor.dtype is torch.from_numpy(table).dtype
        assert np.array_equal(tensor.cpu().numpy(), table)


def test_every_table_arrives_in_its_own_shape_and_dtype_in_one_copy():
    check(to_device(TABLES, CPU))
    with CountingDevice() as device, device.counting("copy") as counts:
        check(map(device.numbers, to_device(TABLES, torch.device("cuda"))))
    assert (counts.launches, counts.waits) == (1, 0)


def test_tables_that_may_not_be_written_are_copied():
    table = np.frombuffer(b"12345678", dtype=np.int32)
    (tensor,) = to_device([table], CPU)
    assert tensor.add_(1).equal(torch.from_numpy(table + 1))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tables_go_to_a_gpu_without_a_wait():
    torch.cuda.set_sync_debug_mode("error")
    try:
        tensors = to_device(TABLES, torch.device("cuda"))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    check(tensors)
