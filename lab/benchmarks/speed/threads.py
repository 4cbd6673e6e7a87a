"""Threads of a measurement."""

import os
from collections.abc import Mapping

import torch


def thread_environment(threads: int) -> Mapping[str, str]:
    """The environment of a process that computes on ``threads`` threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


def use_threads(threads: int) -> None:
    """Let torch compute on ``threads`` threads."""
    torch.set_num_threads(threads)
