"""Memory that the recipe will take, and whether the device at hand has it."""

from collections.abc import Sequence
from typing import NamedTuple

from dph.errors import ModelError, SettingsError
from dph.model.sampler.base import common_length
from dph.recipe import Recipe
from dph.records import Problem
from dph.runs.memory import Device, MemoryEstimate, device_at_hand, estimate, load_of, read_shape
from dph.runs.preflight.data import Findings, NamedProblems
from dph.runs.preflight.model import ModelFiles, read_tokenizer
from dph.runs.preflight.prompts import longest_first, prompt_lengths

_LOOKED_AT = 32
"""Prompts of which the longest in tokens is taken, those of most bytes; with as many of fewest
bytes, those of which the common beginning is taken."""
LIBRARIES = 0.6 * 2**30
"""Bytes of Python, torch and transformers, or of a CUDA context."""


def check_memory(
    recipe: Recipe,
    model: ModelFiles | None,
    named: Sequence[NamedProblems],
    findings: Findings,
    *,
    device: Device | None = None,
) -> None:
    """Estimate the peaks of training and sampling; an error where the device does not hold them.

    ``device`` is the one to ask about [default: the one at hand].
    """
    training = next((part for part in named if part.key == "data.train"), None)
    if model is None or training is None or not training.problems:
        findings.unchecked.append("the memory needed: there is no model, or no training problem")
        return
    device = device or device_at_hand(recipe.model.device)
    cuda = device is not None and device.cuda
    try:
        shape = read_shape(model.directory)
        lengths = _lengths(recipe, model, training.problems)
        if lengths is None:
            findings.unchecked.append("the memory needed: the lengths of prompts need torch")
            return
        found = estimate(
            recipe,
            shape,
            load_of(recipe, prompt=lengths.longest, common=lengths.common, cuda=cuda),
            cuda=cuda,
            gpu=device.memory if device is not None and cuda else 0.0,
        )
    except (ModelError, SettingsError) as error:
        findings.unchecked.append(f"the memory needed: {error}")
        return
    findings.memory = found
    findings.device = device
    if device is not None and (refusal := _too_much(found, device)):
        findings.errors.append(refusal)


class _Lengths(NamedTuple):
    longest: int
    common: int
    """Tokens that all prompts begin with."""


def _lengths(recipe: Recipe, model: ModelFiles, problems: Sequence[Problem]) -> _Lengths | None:
    """Tokens of prompts, in their chat template where they are chats."""
    tokenizer = read_tokenizer(model.directory)
    if tokenizer is None:
        return None
    lengths = prompt_lengths(recipe.data, tokenizer)
    ordered = longest_first(problems)
    texts = [lengths.text(each) for each in (*ordered[:_LOOKED_AT], *ordered[-_LOOKED_AT:])]
    longest = max(map(lengths.tokens, ordered[:_LOOKED_AT]))
    beginning = texts[0][: common_length(min(texts), max(texts))]
    # The last token of a text that goes on may be another there.
    alike = tokenizer.length(beginning, special=False) - 1
    return _Lengths(longest, min(max(alike, 0), longest - 1))


def _too_much(found: MemoryEstimate, device: Device) -> str | None:
    needed = found.peak + LIBRARIES
    if needed <= device.memory:
        return None
    part = "training" if found.training >= found.sampling else "sampling"
    fixed = found.weights + found.gradients + found.optimizer
    advice = (
        "train an adapter ([model.adapter]), or weights in bfloat16 (model.weights)"
        if part == "training" and fixed > device.memory / 2
        else "lower train.microbatch_tokens, or set model.gradient_checkpointing = true"
        if part == "training"
        else "lower sampling.max_rows or sampling.cache_tokens"
    )
    return (
        f"{part} takes about {needed / 2**30:.1f} GiB, and {device.name} has "
        f"{device.memory / 2**30:.1f}: {advice}"
    )
