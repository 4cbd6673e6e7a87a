"""A CUDA device for tests on a CPU: its tensors say ``cuda``, compute on the CPU, and count.

>>> import torch
>>> with CountingDevice() as device:
...     x = torch.ones(3, device="cuda")
...     with device.counting("sum") as counts:
...         total = float((x + x).sum())
>>> counts.launches, counts.waits  # add, sum, the copy; the host waits for the copy
(3, 1)
"""

from counting_device.counts import Counts
from counting_device.device import CountingDevice
from counting_device.tensors import DeviceTensor

__all__ = ["CountingDevice", "Counts", "DeviceTensor"]
