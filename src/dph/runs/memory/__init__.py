"""How much memory a recipe will take, from its model's files alone, without torch."""

from dph.runs.memory.at_hand import Device, device_at_hand, device_of
from dph.runs.memory.estimate import MemoryEstimate, estimate
from dph.runs.memory.estimate import Load, load_of
from dph.runs.memory.estimate import ModelShape, read_shape

__all__ = [
    "Device",
    "Load",
    "MemoryEstimate",
    "ModelShape",
    "device_at_hand",
    "device_of",
    "estimate",
    "load_of",
    "read_shape",
]
