import numpy as np
import pytest
import torch

from counting_device import CountingDevice
from dph.model.forward.packing import Branches, PackedRows, Span
from dph.model.forward.packing import pack as pack_rows
from dph.model.forward.transfer import to_device

CPU = torch.device("cpu")


def pack(prompts, completions) -> PackedRows:
    return pack_rows(prompts, completions, device=CPU, least_saved=0)


def test_a_shared_prompt_stands_once_and_its_completions_go_on_where_it_ends():
    rows = pack([[5, 6, 7], [5, 6, 7]], [[1, 2, 3], [4, 9]])
    assert rows.ids.tolist() == [5, 6, 7, 1, 2, 4]
    assert rows.positions.tolist() == [0, 1, 2, 3, 4, 3]
    assert rows.sequences == (Span(0, 3), Span(3, 2), Span(5, 1))
    assert rows.levels == ((Branches(Span(0, 3), Span(3, 3)),),)
    assert rows.sources.tolist() == [2, 3, 4, 2, 5]
    assert rows.targets.tolist() == [1, 2, 3, 4, 9]
    assert rows.mask.tolist() == [[True] * 3, [True, True, False]]
    assert rows.longest == 5


def test_a_prompt_of_one_row_is_one_stretch_and_without_tokens_to_feed_nothing_is_shared():
    rows = pack([[5, 6]], [[1, 2, 3]])
    assert rows.ids.tolist() == [5, 6, 1, 2]
    assert rows.sequences == (Span(0, 4),)
    assert rows.levels == ()
    assert rows.sources.tolist() == [1, 2, 3]
    rows = pack([[5, 6], [5, 6]], [[1], []])
    assert (rows.ids.tolist(), rows.levels, rows.sources.tolist()) == ([5, 6], (), [1])


def test_every_target_is_predicted_from_the_tokens_before_it():
    prompts = [[5, 6], [7], [5, 6], [5, 6], [8, 8, 8]]
    completions = [[1, 2, 3], [4, 4], [9], [], [2, 1, 2, 1]]
    rows = pack(prompts, completions)
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
    rows = pack(prompts, [[1, 1], [2, 1], [3, 1], [4, 1]])
    assert rows.ids.tolist() == [5, 6, 9, 4, 7, 8, 3, 1, 2]
    assert rows.positions.tolist() == [0, 1, 0, 1, 2, 2, 3, 3, 3]
    schema, question = Branches(Span(0, 2), Span(4, 5)), Branches(Span(4, 1), Span(7, 2))
    assert rows.levels == ((schema,), (question,))
    assert rows.sources.tolist() == [4, 7, 4, 8, 5, 6, 2, 3]


def test_answers_that_begin_alike_share_that_too_and_a_few_tokens_only_stay_apart():
    rows = pack([[5]] * 3, [[1, 2, 3], [1, 2, 3], [1, 2, 4, 4]])
    assert rows.ids.tolist() == [5, 1, 2, 4]
    assert rows.sources.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 3]
    assert rows.targets.tolist() == [1, 2, 3, 1, 2, 3, 1, 2, 4, 4]
    for prompt, packed in ((15, 32), (17, 19)):
        rows = pack_rows([[5] * prompt] * 2, [[1, 2], [3, 4]], device=CPU)
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
