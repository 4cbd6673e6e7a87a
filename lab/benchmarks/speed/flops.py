"""Useful floating-point operations: the fewest that the exact result needs.

A multiply-add counts as two. Every distinct prompt is run once; the last token of a completion is
predicted but never read. Matrix products of layers and head and the two products of attention
count; norms, activations, softmax and the optimizer do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.benchmarks.speed.shapes import ModelSize


@dataclass(frozen=True, slots=True)
class Group:
    """A prompt's length and those of its completions, tokens."""

    prompt: int
    completions: tuple[int, ...]


def forward_flops(size: ModelSize, groups: Sequence[Group]) -> float:
    """Of one forward pass that yields the log-prob of every completion token."""
    read = sum(g.prompt + sum(n - 1 for n in g.completions) for g in groups)
    predicted = sum(sum(g.completions) for g in groups)
    head = 2 * size.vocabulary * size.hidden * predicted
    attention = 4 * size.layers * size.heads * size.width * sum(_attended(g) for g in groups)
    return 2 * layer_weights(size) * read + head + attention


def update_flops(size: ModelSize, groups: Sequence[Group]) -> float:
    """Of forward and backward: the backward pass costs two forwards."""
    return 3 * forward_flops(size, groups)


def layer_weights(size: ModelSize) -> int:
    """Weights of all layers that take part in matrix products."""
    attention = 2 * size.hidden * size.width * (size.heads + size.kv_heads)
    return size.layers * (attention + 3 * size.hidden * size.intermediate)


def _attended(group: Group) -> float:
    """Pairs of a query and a key that it sees."""
    own = [(n - 1) * n / 2 + (n - 1) * group.prompt for n in group.completions]
    return group.prompt * (group.prompt + 1) / 2 + sum(own)


def groups_of(prompt: int, lengths: Sequence[int], samples: int) -> list[Group]:
    """Groups of ``samples`` completions each, in order."""
    return [Group(prompt, tuple(lengths[i : i + samples])) for i in range(0, len(lengths), samples)]
