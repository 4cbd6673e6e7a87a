"""The lines and the document of an estimate, from an estimate with round numbers."""

import pytest

from dph.cli.display.machine import memory_json, memory_lines
from dph.runs.memory import Device, MemoryEstimate

GIB, MIB = 2.0**30, 2.0**20
FOUND = MemoryEstimate(
    weights=4 * GIB,
    gradients=2 * GIB,
    optimizer=8 * GIB,
    activations=3 * GIB,
    activations_apart=9 * GIB,
    step=1 * GIB,
    cache=512 * MIB,
    logits=256 * MIB,
    vllm=0.0,
    several=True,
    head=1 * GIB,
)
CARD = Device(name="NVIDIA L4", cuda=True, memory=22.5 * GIB)


def test_training_and_sampling_are_told_part_by_part_and_add_up():
    training, sampling = memory_lines(FOUND, None)
    # 4 + 8, and the more of 2 + 3 and 2 + 1.
    assert training == (
        "memory, estimated: training 17.0 GiB = weights 4.0 GiB, optimizer 8.0 GiB, and the more "
        "of gradients 2.0 GiB with the optimizer's step 1.0 GiB and activations 3.0 GiB (without "
        "sharing prompts 9.0 GiB)"
    )
    # 4 + 8 + 0.5 + 0.25.
    assert sampling == (
        "memory, estimated: sampling 12.8 GiB = weights, optimizer, cache 512 MiB, logits and "
        "prefill 256 MiB"
    )


def test_vllm_and_the_device_are_told_where_there_are_some():
    found = MemoryEstimate(**{**fields(FOUND), "vllm": 11 * GIB})
    *_, vllm, device = memory_lines(found, CARD)
    assert vllm == "memory, estimated: vLLM 11.0 GiB while pre-sampling and evaluating"
    assert device == "memory available: 22.5 GiB (NVIDIA L4)"


@pytest.mark.parametrize("device", [None, CARD])
def test_machines_read_bytes(device):
    document = memory_json(FOUND, device)
    assert document["training"] == document["peak"] == 17 * 2**30
    assert document["sampling"] == round(12.75 * GIB)
    wanted = {"name": "NVIDIA L4", "bytes": round(22.5 * GIB)}
    assert document.pop("device") == (wanted if device else None)
    assert all(type(value) is int for value in document.values())


def fields(record):
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}
