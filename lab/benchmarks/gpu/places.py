"""The shapes that are measured: published sizes of models with random weights, rollouts, memory."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod

import torch
from transformers import PreTrainedModel

from dph.model.loading import _checkpoint_activations, _take_liger
from dph.model.policies import add_adapter
from dph.recipe import Recipe, resolve_recipe
from dph.runs.memory import MemoryEstimate, ModelShape, estimate, load_of
from lab.benchmarks.gpu.check import Check
from lab.benchmarks.speed.flops import Group, forward_flops
from lab.benchmarks.speed.shapes import LONG, QWEN2, ModelSize, Shape
from lab.benchmarks.speed.world import World, build_model

RANK = 16
"""Of LoRA."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A model and a rollout. ``whole``: its steps are measured whole where there is time.

    ``scored`` has answers that are given; nothing is sampled.
    """

    name: str
    title: str
    size: ModelSize
    shape: Shape
    lora: bool = False
    whole: bool = False
    scored: bool = False

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return self.shape.prompt + self.shape.completion

    def made_tiny(self) -> "Place":
        """The same with everything small, for a try on a CPU."""
        size = replace(
            self.size,
            vocabulary=128,
            hidden=64,
            layers=2,
            heads=4,
            kv_heads=2,
            intermediate=48,
            head=16 if self.size.head else None,
        )
        shape = replace(
            self.shape,
            prompt=24,
            completion=8,
            prompts=min(4, self.shape.prompts),
            samples=min(4, self.shape.samples),
            mean=5 if self.shape.mean else None,
            schemas=min(2, self.shape.schemas),
            schema=min(16, self.shape.schema),
        )
        return replace(self, size=size, shape=shape)


QWEN2_1_5B = replace(QWEN2, hidden=1536, layers=28, heads=12, intermediate=8960)
_QWEN3 = partial(ModelSize, vocabulary=151_936, kv_heads=8, head=128, family="qwen3")
QWEN3_0_6B = _QWEN3(hidden=1024, layers=28, heads=16, intermediate=3072, tied=True)
QWEN3_8B = _QWEN3(hidden=4096, layers=36, heads=32, intermediate=12_288, tied=False)
HALF = Place(name="half", title="0.5B", size=QWEN2, shape=LONG, whole=True)
SQL = Place(
    name="sql",
    title="1.5B, text-to-SQL",
    size=QWEN2_1_5B,
    shape=Shape(prompt=3000, completion=200, prompts=32, schemas=4, schema=2600),
    whole=True,
)
ONE = Place(
    name="one",
    title="1.5B",
    size=QWEN2_1_5B,
    shape=Shape(prompt=512, completion=1024, prompts=64, samples=8, mean=512),
    whole=True,
)
EIGHT = Place(
    name="eight",
    title=f"8B, LoRA of rank {RANK}",
    size=QWEN3_8B,
    shape=Shape(prompt=512, completion=1024, prompts=32, samples=8, mean=512),
    lora=True,
)
CONTEXT = Place(
    name="context",
    title="0.6B, 16k tokens",
    size=QWEN3_0_6B,
    shape=Shape(prompt=1024, completion=15_360, prompts=2, samples=1),
    scored=True,
)
PLACES: Mapping[str, Place] = {place.name: place for place in (HALF, SQL, ONE, EIGHT, CONTEXT)}

# Memory: the largest micro-batch that the package's own estimate lets in.

BUDGETS = ((False, 32_768), (False, 16_384), (False, 8192), (True, 32_768), (True, 8192), (True, 1))
"""Gradient checkpointing, and tokens of a micro-batch; a row is always let in."""
SHARE = 0.8
"""Of a card's memory that an update may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Memory settings of a place on a card, and the package's estimate with them."""

    checkpointing: bool
    tokens: int
    estimate: MemoryEstimate


def fit(check: Check, place: Place, model: PreTrainedModel) -> Fit:
    """The first of `BUDGETS` that fits, or the last."""
    total = torch.cuda.mem_get_info()[1] if check.cuda else 8 * 2**30
    for checkpointing, least in BUDGETS:
        tokens = max(least, place.longest)
        recipe = recipe_of(place, tokens, check.device, checkpointing=checkpointing)
        load = load_of(recipe, prompt=place.shape.prompt, cuda=check.cuda)
        found = estimate(recipe, shape_of(model, place.size), load, cuda=check.cuda, gpu=total)
        if found.training <= SHARE * total:
            break
    return Fit(checkpointing=checkpointing, tokens=tokens, estimate=found)


def recipe_of(place: Place, tokens: int, device: str, *, checkpointing: bool) -> Recipe:
    """GRPO with one optimizer step a rollout, as a user would write it."""
    model: dict[str, object] = {
        "path": "model",
        "device": device,
        "dtype": "bfloat16",
        "gradient_checkpointing": checkpointing,
    }
    if place.lora:
        model |= {"weights": "bfloat16", "adapter": {"kind": "lora", "rank": RANK}}
    return resolve_recipe(
        {
            "method": "grpo",
            "model": model,
            "data": {"train": "problems.jsonl"},
            "sampling": {"max_tokens": place.shape.completion},
            "train": {
                "problems_per_step": place.shape.prompts,
                "samples_per_problem": max(2, place.shape.samples),
                "minibatches": 1,
                "microbatch_tokens": tokens,
            },
        }
    )


def shape_of(model: PreTrainedModel, size: ModelSize) -> ModelShape:
    """The sizes that an estimate needs, of a model that is not saved; adapters left out."""
    whole = {n: p for n, p in model.named_parameters() if "lora_" not in n}
    linear = {
        name.replace(".base_layer", ""): (p.shape[1], p.shape[0])
        for name, p in whole.items()
        if p.dim() == 2 and ".layers." in name
    }
    return ModelShape(
        parameters=sum(p.numel() for p in whole.values()),
        vocabulary=size.vocabulary,
        hidden=size.hidden,
        layers=size.layers,
        queries=size.heads * size.width,
        keys=size.kv_heads * size.width,
        inner=size.intermediate,
        gated=True,
        linear=linear,
        largest=max(prod(p.shape) for p in whole.values()),
    )


# The model, made where it is measured.


def build(check: Check, place: Place) -> tuple[World, PreTrainedModel]:
    """The model on the device: under an adapter its weights are in bfloat16."""
    world = World(size=place.size, shape=place.shape, device=check.device, dtype="bfloat16")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if place.lora else before)
    try:
        with torch.device(check.device):
            model = build_model(world)
    finally:
        torch.set_default_dtype(before)
    if place.lora:
        settings = recipe_of(place, place.longest, check.device, checkpointing=False).model.adapter
        assert settings is not None
        add_adapter(model, settings, base="", seed=0)
        model.to(check.device)
    return world, model.eval()


def checkpoint(model: PreTrainedModel) -> None:
    """Turn gradient checkpointing on, as the package does."""
    _checkpoint_activations(model)


@contextmanager
def liger(model: PreTrainedModel) -> Iterator[None]:
    """Liger's kernels in this model, as the package takes them; models made later have torch's."""
    module = vars(sys.modules[type(model).__module__])
    before = dict(module)
    _take_liger(model)
    try:
        yield
    finally:
        module.update(before)


# Useful operations: every distinct token once.


def useful_flops(place: Place, groups: Sequence[Group], *, backward: bool) -> float:
    """Operations that the exact result needs, by `lab.benchmarks.speed.flops`.

    Computed as: what prompts begin with alike counts once. A frozen weight has no gradient, so
    under an adapter the backward pass costs one forward and not two.
    """
    shape = place.shape
    flops = forward_flops(place.size, groups)
    if shape.schemas:
        begun = [Group(shape.schema, ())]
        again = max(0, len(groups) - shape.schemas)
        flops -= again * forward_flops(place.size, begun)
    return flops * (2 if place.lora else 3) if backward else flops
