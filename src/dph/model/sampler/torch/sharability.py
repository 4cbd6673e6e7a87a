"""Whether a model can be decoded with shared prompts: asked of its config, then of the model."""

import inspect
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.attention.probing import probe_tokens
from dph.model.attention.probing import attention_window
from dph.model.attention.probing import own_logits
from dph.model.sampler.torch.shared_forward import SharedForward
from dph.model.sampler.torch.waves import Wave, WaveRow

_PROMPTS = ((3, 1, 4), (3, 1, 5), (5,))
"""Of which tokens of a probe; shorter than any window worth asking about; two begin alike."""
_AFTER = (0, 1, 2, 3)
"""The token that follows, for each row."""


def shares_prompts(model: PreTrainedModel, prompts: Sequence[Sequence[int]] = ()) -> bool:
    """Whether `SharedForward` gives this model's own logits (see `sharing_refusal`)."""
    return sharing_refusal(model, prompts) is None


def sharing_refusal(model: PreTrainedModel, prompts: Sequence[Sequence[int]] = ()) -> str | None:
    """Why `SharedForward` does not give this model's own logits; None where it does.

    That is short of its `attention_window`, which the sampler asks for every batch.
    Computed as: three prompts of tokens of ``prompts``, two of which begin alike, and one more
    token each, with prompts in one copy and one by one; logits may lie apart by what rounding does
    to the model (`OwnLogits`). That finds ALiBi, attention sinks, biases, attention outside of
    transformers' registry, and whatever else is special; a model that lacks the arguments for it is
    not asked.
    """
    missing = {"position_ids", "logits_to_keep"} - inspect.signature(
        model.forward
    ).parameters.keys()
    if missing:
        return f"its forward takes no {min(missing)}"
    with torch.autocast(model.device.type, enabled=False):
        return _refusal(model, probe_tokens(model.config, prompts))


def window_refusal(model: PreTrainedModel, tokens: int) -> str | None:
    """Why rows of so many tokens are not shared: a layer that sees fewer; None where all do."""
    window = attention_window(model)
    if tokens <= window:
        return None
    return f"a row may have {tokens} tokens, a layer attends to the last {window:g}"


def _refusal(model: PreTrainedModel, tokens: Sequence[int]) -> str | None:
    prompts = tuple(tuple(tokens[place] for place in prompt) for prompt in _PROMPTS)
    rows = tuple(WaveRow(0, i, prompt) for i, prompt in enumerate((0, 0, 1, 2)))
    after = torch.tensor([tokens[place] for place in _AFTER], device=model.device)
    forward = SharedForward(model, max_tokens=2, least_shared=1)
    try:
        with forward.active():
            cache, first = forward.start(Wave(prompts, rows))
            second = forward.step([cache], after)
    except (ModelError, KeyError, TypeError, RuntimeError) as error:
        # No layer numbers, layers that never called us, or an attention of the model's own.
        return " ".join(str(error).split()) or type(error).__name__
    for row in rows:
        ids = [*prompts[row.prompt], int(after[row.sample_index])]
        ours = torch.stack([first[row.sample_index], second[row.sample_index]])
        if not own_logits(model, ids, last=2).agree_with(ours):
            return "shared prompts change its logits"
    return None
