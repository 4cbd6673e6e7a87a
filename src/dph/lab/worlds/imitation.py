"""Training a small Llama to imitate: lessons in, weights out."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
import torch
from transformers import LlamaForCausalLM

from dph.lab.worlds.fused_llama import FusedLlama, imitation_gradients
from dph.lab.worlds.fused_llama import Batch, lesson_batch
from dph.lab.worlds.lessons import Lesson
from dph.lab.worlds.small_model import Muon
from dph.lab.worlds.small_model import Rates

LESSONS_AT_ONCE = 9
"""Rows of a batch: few enough for the CPU's caches."""
LONGEST_BESIDE = 1.6
"""A row is at most so many times as long as the shortest of its batch: less padding."""
MOST_THREADS = 4
"""Batches that are computed side by side where there are cores; it decides nothing but time."""
EMBEDDINGS, GAIN = 10.0, 0.5
"""Factors on the first embeddings and on the gain behind the last layer.

With tied embeddings as small as they are usually drawn, the first steps push all rare tokens the
same way, by more than what they differ in, and they are hard to tell apart from then on: after 600
steps the copying of rare values was not learnt (12 nats a question; 0.01 with these factors).
"""


def imitate(
    model: LlamaForCausalLM,
    steps: Iterator[Sequence[Lesson]],
    *,
    count: int,
    rng: np.random.Generator,
    rates: Rates | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Train a new model: lower the mean cross-entropy of all that a step's lessons predict."""
    rates = rates or Rates()
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(EMBEDDINGS)
        model.model.norm.weight.mul_(GAIN)
    llama = FusedLlama(model)
    muon = Muon(llama.matrices, learning_rate=rates.matrices)
    adam = torch.optim.AdamW(llama.others, lr=rates.others, betas=(0.9, 0.95), weight_decay=0.0)
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as threads:
        for step, lessons in enumerate(steps):
            scale = rates.scale(step, count)
            for group in adam.param_groups:
                group["lr"] = rates.others * scale
            batches = batches_of(lessons, rng, pad_id=model.config.pad_token_id)
            _set_gradients(llama, batches, threads)
            muon.step(scale)
            adam.step()
            if on_progress is not None:
                on_progress(1)
    llama.write_into(model)
    model.eval()


def _set_gradients(llama: FusedLlama, batches: Sequence[Batch], threads: Executor) -> None:
    """Batches side by side; their gradients are added in their order, whoever is ready first."""
    targets = sum(len(batch.where) for batch in batches)
    for weight in llama.weights:
        weight.grad = None
    for found in threads.map(lambda batch: imitation_gradients(llama, batch, targets), batches):
        for weight, gradient in zip(llama.weights, found, strict=True):
            weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)


def batches_of(lessons: Sequence[Lesson], rng: np.random.Generator, *, pad_id: int) -> list[Batch]:
    """Lessons of similar length together."""
    pieces: list[list[Lesson]] = []
    for lesson in sorted(lessons, key=len):
        piece = pieces[-1] if pieces else []
        if piece and len(piece) < LESSONS_AT_ONCE and len(lesson) <= LONGEST_BESIDE * len(piece[0]):
            piece.append(lesson)
        else:
            pieces.append([lesson])
    return [lesson_batch(piece, rng, pad_id=pad_id) for piece in pieces]
