"""Packed rows of many shapes, and attention over them by its definition."""

import itertools
import random
from dataclasses import replace

import torch

from dph.model.forward.packing import Branches, Span, pack

CPU = torch.device("cpu")

SHAPES = {
    "one group": [(6, [4, 4, 4])],
    "ragged": [(9, [5, 1, 0, 7]), (2, [3, 8]), (5, [6]), (1, [2, 2])],
    "equal groups": [(4, [3, 3]), (4, [3, 3]), (4, [3, 3])],
    "singles": [(3, [2]), (6, [1]), (3, [4])],
    "nothing after the prompt": [(3, [1, 1]), (2, [0])],
    "one token each": [(1, [2, 2]), (1, [2, 2])],
    "nested": None,
}
"""Lengths of prompts, each with those of its completions."""


def rows_of(shape, seed=0):
    """Prompts and completions of a shape, or of (prompt length, completion lengths)."""
    lengths = SHAPES[shape] if isinstance(shape, str) else shape
    if lengths is None:
        return nested_rows(seed)
    numbers = random.Random(seed)
    rows = []
    for prompt, completions in lengths:
        ids = [numbers.randrange(999) for _ in range(prompt)]
        rows += [(ids, [numbers.randrange(999) for _ in range(n)]) for n in completions]
    numbers.shuffle(rows)
    return [p for p, _ in rows], [c for _, c in rows]


def nested_rows(seed=0):
    """Rows of few different tokens: trees of several levels, some rows within others."""
    numbers = random.Random(seed)
    lengths = [(numbers.randrange(1, 12), numbers.randrange(8)) for _ in range(24)]
    rows = [[[numbers.randrange(2) for _ in range(n)] for n in pair] for pair in lengths]
    return [p for p, _ in rows], [c for _, c in rows]


def packed_rows(shape, *, device=CPU):
    return pack(*rows_of(shape), device=device, least_saved=0)


def with_borrowed(rows, stems=(5, 3)):
    """The rows, some of whose trees also see stems behind the tokens of the rows.

    The first half of the roots sees the first stem, another root the second, the last one none.
    """
    below = {some.stem: some.tokens for some in rows.levels[0]} if rows.levels else {}
    begin = min((span.start for span in below.values()), default=len(rows.ids))
    roots = [span for span in rows.sequences if span.start < begin]
    starts = itertools.accumulate(stems, initial=len(rows.ids))
    borrowed = []
    for start, length, seeing in zip(starts, stems, (roots[::2], roots[1:2]), strict=False):
        spans = [span for root in seeing for span in (root, below.get(root)) if span is not None]
        borrowed += [Branches(Span(start, length), span) for span in spans]
    return replace(rows, levels=(*rows.levels, tuple(borrowed)))


def inputs(rows, kv_heads, dtype=torch.float64, *, size=8, keys=None):
    """Query, key and value of 4 heads; there may be more keys than tokens."""
    torch.manual_seed(0)
    counts = (len(rows.ids), *[len(rows.ids) if keys is None else keys] * 2)
    return [
        torch.randn(1, heads, count, size, dtype=torch.float64).to(dtype)
        for heads, count in zip((4, kv_heads, kv_heads), counts, strict=True)
    ]


def allowed(rows, keys):
    """Which token sees which: own sequence causally, and for branches each stem above."""
    seen = torch.zeros(len(rows.ids), keys, dtype=torch.bool)
    for span in rows.sequences:
        inside = slice(span.start, span.start + span.length)
        seen[inside, inside] = torch.ones(span.length, span.length, dtype=torch.bool).tril()
    for some in itertools.chain(*rows.levels):
        branches = slice(some.tokens.start, some.tokens.start + some.tokens.length)
        seen[branches, some.stem.start : some.stem.start + some.stem.length] = True
    return seen


def masked_attention(rows, query, key, value, *, softcap=None, scaling=0.4):
    repeats = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(repeats, 1).transpose(-1, -2) * scaling
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    weights = scores.masked_fill(~allowed(rows, key.shape[2]), -torch.inf).softmax(-1)
    return (weights @ value.repeat_interleave(repeats, 1)).transpose(1, 2)
