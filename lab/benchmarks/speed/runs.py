"""How a comparison is run: repeats, threads, device, precision."""

from dataclasses import dataclass
from typing import Any

from lab.benchmarks.speed.shapes import (
    FIVE_MILLION,
    QWEN2,
    REAL,
    SMOLLM2,
    TINY,
    TINY_MODEL,
    ModelSize,
    Shape,
)
from lab.benchmarks.speed.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Settings of a measurement. ``quick`` is a smoke run: tiny shapes, numbers without meaning."""

    repeats: int = 5
    threads: int = 1
    device: str = "cpu"
    dtype: str = "float32"
    quick: bool = False

    def world(self, shape: Shape, size: ModelSize = FIVE_MILLION) -> World:
        """The world that is measured; on a GPU the model is a Qwen2 of half a billion weights.

        The shapes of SmolLM2 are measured on it everywhere.
        """
        if self.quick:
            size, shape = TINY_MODEL, TINY
        elif shape in REAL.values():
            size = SMOLLM2
        elif self.device == "cuda":
            size = QWEN2
        return World(size=size, shape=shape, device=self.device, dtype=self.dtype)

    @property
    def gradient_tolerance(self) -> float:
        """The largest relative difference of gradients with which both sides are timed."""
        return 1e-4 if self.dtype == "float32" else 5e-2


Row = dict[str, Any]
"""One line of results.jsonl."""
