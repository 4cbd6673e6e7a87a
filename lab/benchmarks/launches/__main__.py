"""Count the launches and waits of a training step on a GPU, on a CPU.

    PYTHONPATH=tests python -m lab.benchmarks.launches [--layers 24]

The model is a Qwen2 of half a billion parameters' depth and vocabulary, narrow, under autocast in
bfloat16; prompts of 800 tokens, completions of 64, 2 prompts x 16 samples. Tensors say ``cuda`` and
compute on the CPU (tests/counting_device). The tables are for people; the last line is JSON:

* ``token_launches``, ``token_kernels``, ``token_waits``: of a decoded token of all rows, from the
  difference of two rollouts between the same two looks at the rows. A replayed graph is one launch
  of many kernels.
* ``update_launches``, ``update_waits``: of everything between the drawn answers and the end of the
  optimizer's step, with ``microbatches``.
* ``update_launches_400_rows``, ``update_waits_400_rows``: the same of 2 prompts x 200 samples of 2
  to 16 tokens, at random. Launches are those of the whole update over its number of micro-batches
  (``microbatches_400_rows``, one as for 32 rows), so they compare with ``update_launches /
  microbatches``.
* ``prefill_launches``, ``prefill_waits``: of a rollout of one token.
"""

import argparse
import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from counting_device import Counts
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe import Recipe, resolve_recipe
from lab.benchmarks.launches.idle import IdleDevice
from lab.benchmarks.launches.ours import (
    RandomAnswers,
    StepCounts,
    TokenCounts,
    count_step,
    count_tokens,
    make_learner,
)
from lab.benchmarks.speed.shapes import LONG, ModelSize
from lab.benchmarks.speed.world import World, build_model, build_tokenizer

SHAPE = LONG
MANY, LENGTHS = 200, (2, 16)
"""Samples of each prompt and their lengths in the update of 400 rows, which is one micro-batch."""
MICRO_ROWS = 16
"""Of a micro-batch, as in the speed suite."""
TOKENS = (9, 13)
"""Limits of the two rollouts; looks are every 8 or 16 tokens."""


def world(layers: int) -> World:
    """The model's shape: heads of 8 numbers are the narrowest that FlashAttention takes."""
    size = ModelSize(
        vocabulary=151_936,
        hidden=112,
        layers=layers,
        heads=14,
        kv_heads=2,
        intermediate=64,
        family="qwen2",
    )
    return World(size=size, shape=SHAPE, device="cuda", dtype="bfloat16")


def recipe(samples: int) -> Recipe:
    """GRPO with one optimizer step a rollout and micro-batches of sixteen full rows."""
    return resolve_recipe(
        {
            "method": "grpo",
            "model": {"path": "model", "device": "cuda", "dtype": "bfloat16"},
            "data": {"train": "problems.jsonl"},
            "sampling": {"max_tokens": SHAPE.completion},
            "train": {
                "problems_per_step": SHAPE.prompts,
                "samples_per_problem": samples,
                "minibatches": 1,
                "microbatch_tokens": MICRO_ROWS * (SHAPE.prompt + SHAPE.completion),
            },
        }
    )


def our_update(place: World, samples: int, lengths: tuple[int, int]) -> StepCounts:
    """Counts of our update."""
    words = place.size.vocabulary
    with IdleDevice() as device:
        model = build_model(place)
        draw = RandomAnswers(vocabulary=words, prompt=SHAPE.prompt, lengths=lengths)
        learner = make_learner(recipe(samples), model, build_tokenizer(place.size), draw)
        return count_step(device, learner)


def our_tokens(place: World) -> TokenCounts:
    """Counts of our sampler."""
    drawn = random.Random(0)
    requests = [
        SampleRequest(
            problem_id=str(i),
            prompt_ids=tuple(
                drawn.randrange(2, place.size.vocabulary) for _ in range(SHAPE.prompt)
            ),
            samples=SHAPE.samples,
        )
        for i in range(SHAPE.prompts)
    ]
    with IdleDevice(least=sys.maxsize, attends=True) as device:
        sampler = TorchSampler(build_model(place), build_tokenizer(place.size), dtype=place.dtype)
        few = SamplingParameters(max_tokens=2, stop_token_ids=place.stop_tokens)
        short = [replace(request, prompt_ids=request.prompt_ids[:9]) for request in requests]
        sampler.sample(short, few, seed=0)  # it finds out once what the model can
        device.attends = False
        return count_tokens(device, sampler, requests, lengths=TOKENS, stops=place.stop_tokens)


# What is printed.


def print_parts(name: str, parts: Mapping[str, Counts], *, microbatches: int) -> None:
    """A row a part, and where most launches and all waits come from."""
    print(f"\n{name}, {microbatches} micro-batch{'es' * (microbatches > 1)}: launches, waits")
    for part, counts in parts.items():
        print(f"  {part:18s}{counts.launches:8d}{counts.waits:6d}")
    print(f"  {'together':18s}{_launches(parts):8d}{_waits(parts):6d}")
    files: Counter[str] = sum((c.by_file() for c in parts.values()), Counter())
    print_places(files.most_common(8))
    waits = sum((c.by_place("waited") for c in parts.values()), Counter())
    for place, count in waits.most_common(8):
        print(f"  {count:8d} waits  {place}")


def print_places(places: Iterable[tuple[str, float]]) -> None:
    """Launches by file."""
    for place, count in places:
        if count:
            print(f"  {count:8.4g}  {place}")


def _launches(parts: Mapping[str, Counts]) -> int:
    return sum(counts.launches for counts in parts.values())


def _waits(parts: Mapping[str, Counts]) -> int:
    return sum(counts.waits for counts in parts.values())


def measure(place: World) -> dict[str, Any]:
    """Count and print."""
    token = our_tokens(place)
    print(f"a token: {token.launches:g} launches, {token.kernels:g} kernels, {token.waits:g} waits")
    print_places(sorted(token.by_file.items(), key=lambda item: -item[1])[:8])
    print(f"prefill: {token.prefill.launches} launches, {token.prefill.waits} waits")
    step = our_update(place, SHAPE.samples, (SHAPE.completion, SHAPE.completion))
    print_parts("update", step.parts, microbatches=step.microbatches)
    many = our_update(place, MANY, LENGTHS)
    print_parts("update of 400 rows", many.parts, microbatches=many.microbatches)
    return {
        "token_launches": token.launches,
        "token_kernels": token.kernels,
        "token_waits": token.waits,
        "prefill_launches": token.prefill.launches,
        "prefill_waits": token.prefill.waits,
        "update_launches": step.launches,
        "update_waits": step.waits,
        "microbatches": step.microbatches,
        "update_launches_400_rows": many.launches / many.microbatches,
        "update_waits_400_rows": many.waits,
        "microbatches_400_rows": many.microbatches,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Count a token and an update."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.launches")
    parser.add_argument("--layers", type=int, default=24)
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # of log-probs, which are made up here
    torch.manual_seed(0)
    place = world(options.layers)
    print(f"{SHAPE}; {options.layers} layers, a vocabulary of {place.size.vocabulary:,}")
    print(json.dumps({"layers": options.layers, **measure(place)}))


if __name__ == "__main__":
    main()
