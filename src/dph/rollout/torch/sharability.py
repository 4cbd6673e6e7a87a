"""Whether a model can be decoded with shared prompts: asked of its config, then of the model."""

import inspect

import torch
from transformers import PreTrainedModel

from dph.attention.probing import attention_window, same_logits
from dph.errors import ModelError
from dph.rollout.torch.shared_forward import SharedForward
from dph.rollout.torch.waves import Wave, WaveRow

_PROMPTS = ((3, 1, 4), (3, 1, 5), (5,))
"""Shorter than any window worth asking about; two begin alike."""


def shares_prompts(model: PreTrainedModel) -> bool:
    """Whether `SharedForward` gives this model's own logits (see `sharing_refusal`)."""
    return sharing_refusal(model) is None


def sharing_refusal(model: PreTrainedModel) -> str | None:
    """Why `SharedForward` does not give this model's own logits; None where it does.

    That is short of its `attention_window`, which the sampler asks for every batch.
    Computed as: three prompts, two of which begin alike, and one more token each, with prompts in
    one copy and one by one. That finds ALiBi, attention sinks, biases,
    attention outside of transformers' registry, and whatever else is special; a model that lacks
    the arguments for it is not asked.
    """
    missing = {"position_ids", "logits_to_keep"} - inspect.signature(
        model.forward
    ).parameters.keys()
    if missing:
        return f"its forward takes no {min(missing)}"
    with torch.autocast(model.device.type, enabled=False):
        return _refusal(model)


def window_refusal(model: PreTrainedModel, tokens: int) -> str | None:
    """Why rows of so many tokens are not shared: a layer that sees fewer; None where all do."""
    window = attention_window(model)
    if tokens <= window:
        return None
    return f"a row may have {tokens} tokens, a layer attends to the last {window:g}"


def _refusal(model: PreTrainedModel) -> str | None:
    vocabulary = model.config.get_text_config().vocab_size
    prompts = tuple(tuple(token % vocabulary for token in prompt) for prompt in _PROMPTS)
    rows = tuple(WaveRow(0, i, prompt) for i, prompt in enumerate((0, 0, 1, 2)))
    forward = SharedForward(model, max_tokens=2, least_shared=1)
    after = torch.arange(len(rows), device=model.device) % vocabulary
    try:
        with forward.active():
            cache, first = forward.start(Wave(prompts, rows))
            second = forward.step([cache], after)
    except (ModelError, KeyError, TypeError, RuntimeError) as error:
        # No layer numbers, layers that never called us, or an attention of the model's own.
        return " ".join(str(error).split()) or type(error).__name__
    for row in rows:
        ids = [*prompts[row.prompt], int(after[row.sample_index])]
        alone = torch.tensor([ids], device=model.device)
        logits = model(input_ids=alone, attention_mask=torch.ones_like(alone)).logits[0]
        ours = torch.stack([first[row.sample_index], second[row.sample_index]])
        if not same_logits(ours, logits[-2:]):
            return "shared prompts change its logits"
    return None
