"""Whether a model can be decoded with shared prompts: asked of its config, then of the model."""

import inspect

import torch
from transformers import PreTrainedModel

from dph.attention.probing import same_logits
from dph.errors import ModelError
from dph.rollout.torch.shared_forward import SharedForward
from dph.rollout.torch.waves import Wave, WaveRow

_PROMPTS = ((3, 1, 4), (5,))
"""Shorter than any window worth asking about."""


def shares_prompts(model: PreTrainedModel) -> bool:
    """Whether `SharedForward` gives this model's own logits, short of its `attention_window`.

    Computed as: two prompts and one more token each, both ways. That finds ALiBi, attention sinks,
    biases, attention outside of transformers' registry, and whatever else is special; a model
    that lacks the arguments for it is not asked.
    """
    accepted = inspect.signature(model.forward).parameters
    if not {"position_ids", "logits_to_keep"} <= accepted.keys():
        return False
    vocabulary = model.config.get_text_config().vocab_size
    prompts = tuple(tuple(token % vocabulary for token in prompt) for prompt in _PROMPTS)
    rows = tuple(WaveRow(0, i, prompt) for i, prompt in enumerate((0, 0, 1)))
    forward = SharedForward(model, max_tokens=2)
    after = torch.arange(len(rows), device=model.device) % vocabulary
    with torch.autocast(model.device.type, enabled=False):
        try:
            with forward.active():
                cache, first = forward.start(Wave(prompts, rows))
                second = forward.step([cache], after)
        except (ModelError, KeyError, TypeError, RuntimeError):
            # No layer numbers, layers that never called us, or an attention of the model's own.
            return False
        for row in rows:
            ids = [*prompts[row.prompt], int(after[row.sample_index])]
            alone = torch.tensor([ids], device=model.device)
            logits = model(input_ids=alone, attention_mask=torch.ones_like(alone)).logits[0]
            ours = torch.stack([first[row.sample_index], second[row.sample_index]])
            if not same_logits(ours, logits[-2:]):
                return False
    return True
