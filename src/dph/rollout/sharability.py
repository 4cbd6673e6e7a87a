"""Whether a model can be decoded with shared prompts: asked of its config, then of the model."""

import inspect
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from dph.errors import ModelError
from dph.rollout.shared_forward import SharedForward
from dph.rollout.waves import Row, Wave

_PROMPTS = ((3, 1, 4), (5,))
"""Shorter than any window worth asking about."""
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
_COARSE_TOLERANCE = 5e-2


def window(model: PreTrainedModel) -> float:
    """How many tokens every layer attends to; 0 where a layer does not attend to tokens at all."""
    return min(map(_reach, DynamicCache(config=model.config).layers), default=torch.inf)


def shares_prompts(model: PreTrainedModel) -> bool:
    """Whether `SharedForward` gives this model's own logits, short of its `window`.

    Computed as: two prompts and one more token each, both ways. That finds ALiBi, attention sinks,
    biases, attention outside of transformers' registry, and whatever else is special; a model
    that lacks the arguments for it is not asked.
    """
    accepted = inspect.signature(model.forward).parameters
    if not {"position_ids", "logits_to_keep"} <= accepted.keys():
        return False
    vocabulary = model.config.get_text_config().vocab_size
    prompts = tuple(tuple(token % vocabulary for token in prompt) for prompt in _PROMPTS)
    rows = tuple(Row(0, i, prompt) for i, prompt in enumerate((0, 0, 1)))
    forward = SharedForward(model, max_tokens=2)
    after = torch.arange(len(rows), device=model.device) % vocabulary
    with torch.autocast(model.device.type, enabled=False):
        try:
            with forward.active():
                cache, first = forward.start(Wave(prompts, rows))
                second = forward.step([cache], after)
        except (ModelError, KeyError):  # no layer numbers, or layers that never called us
            return False
        for row in rows:
            ids = [*prompts[row.prompt], int(after[row.sample_index])]
            alone = torch.tensor([ids], device=model.device)
            logits = model(input_ids=alone, attention_mask=torch.ones_like(alone)).logits[0]
            ours = torch.stack([first[row.sample_index], second[row.sample_index]])
            if not _close(ours, logits[-2:]):
                return False
    return True


def _close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    tolerance = _TOLERANCE.get(theirs.dtype, _COARSE_TOLERANCE)
    ours, theirs = ours.double(), theirs.double()
    # Lost weights give NaN both ways; the sampler says so when it meets them.
    largest = (ours - theirs).nan_to_num().abs().max()
    return bool(largest <= tolerance * (1 + theirs.nan_to_num().abs().max()))


def _reach(layer: Any) -> float:
    if type(layer) is DynamicSlidingWindowLayer:
        return float(layer.sliding_window)
    return torch.inf if type(layer) is DynamicLayer else 0.0
