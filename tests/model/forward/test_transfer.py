import numpy as np
import pytest
import torch

from counting_device import CountingDevice
from dph.model.forward.transfer import to_device

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


def test_every_table_arrives_in_its_own_shape_and_dtype():
    check(to_device(TABLES, torch.device("cpu")))


def test_tables_that_may_not_be_written_are_copied():
    table = np.frombuffer(b"12345678", dtype=np.int32)
    (tensor,) = to_device([table], torch.device("cpu"))
    assert tensor.add_(1).equal(torch.from_numpy(table + 1))


@pytest.mark.parametrize("tables", [TABLES, TABLES[2:3]])
def test_all_of_them_are_one_copy_for_which_nobody_waits(tables):
    with CountingDevice() as device, device.counting("copy") as counts:
        found = to_device(tables, torch.device("cuda"))
    assert (counts.launches <= 1, counts.waits) == (True, 0)
    for table, tensor in zip(tables, found, strict=True):
        assert np.array_equal(device.numbers(tensor).numpy(), table)


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
