"""Which models can run packed rows: asked of the config, then of the model itself, once."""

import inspect
import logging
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.attention.context import attending
from dph.attention.probing import attention_window, same_logits
from dph.errors import ModelError
from dph.forward.packed_attention import PackedAttention
from dph.forward.packing import PackedRows, pack
from dph.models.modes import evaluating

_LOG = logging.getLogger(__name__)

_PROMPTS = ((3, 1, 4, 1, 5), (3, 1, 4, 1, 5), (3, 1, 4, 7), (9, 2))
_COMPLETIONS = ((2, 6, 5), (3, 5), (6, 4), (8, 9, 7))


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a model runs packed rows, and how long they may be."""

    refusal: str | None
    """Why it does not; None where it does."""
    window: float
    """Tokens that every layer attends to at least."""


_known: WeakKeyDictionary[PreTrainedModel, dict[Any, Support]] = WeakKeyDictionary()


def packing_support(model: PreTrainedModel) -> Support:
    """Whether packed rows give this model's own values and gradients.

    Computed as: static checks, then four short rows, once packed and once one by one. That finds
    ALiBi, attention sinks, attention outside transformers' registry, and other special cases.
    Gradients are compared only where something may go wrong with them: under gradient
    checkpointing, and on devices other than a CPU, where everything is checked in bfloat16 as
    well; never for a frozen model. The result is remembered for each mode of the model, and a
    refusal is logged once.
    """
    checkpointing = model.training and _checkpoints(model)
    trainable = any(parameter.requires_grad for parameter in model.parameters())
    mode = (checkpointing, model.training and _dropout(model) > 0, trainable, model.device)
    known = _known.setdefault(model, {})
    if mode not in known:
        unsure = checkpointing or model.device.type != "cpu"
        support = _support(model, gradients=trainable and unsure)
        if support.refusal and all(support.refusal != other.refusal for other in known.values()):
            _LOG.warning(
                "%s: prompts are not shared in the training forward: %s",
                type(model).__name__,
                support.refusal,
            )
        known[mode] = support
    return known[mode]


def run_packed(model: PreTrainedModel, rows: PackedRows) -> Any:
    """The model's output on packed rows.

    Raises:
        ModelError: a layer's attention is something else than packed rows can have.
    """
    with attending(model, PackedAttention(rows)):
        return model(
            input_ids=rows.ids[None],
            position_ids=rows.positions[None],
            attention_mask=torch.ones_like(rows.ids)[None],
            use_cache=False,
        )


def _support(model: PreTrainedModel, *, gradients: bool) -> Support:
    window = attention_window(model)
    refusal = _static_refusal(model, window)
    device = model.device.type
    for rounded in (False,) if device == "cpu" else (False, True):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=rounded):
            if refusal is None:
                with evaluating(model):
                    refusal = _refusal_of_values(model)
            if refusal is None and gradients:
                rounds = rounded or model.dtype != torch.float32
                refusal = _refusal_of_gradients(model, rounded=rounds)
    return Support(refusal, window)


def _static_refusal(model: PreTrainedModel, window: float) -> str | None:
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return "its forward takes no position_ids"
    if window < max(map(len, _PROMPTS)) + max(map(len, _COMPLETIONS)):
        return f"a layer attends to the last {window:g} tokens only"
    if model.training and _dropout(model) > 0:
        return "it trains with dropout"
    return None


def _dropout(model: PreTrainedModel) -> float:
    rates = vars(model.config.get_text_config())
    return max(
        (r for name, r in rates.items() if "drop" in name and isinstance(r, float)), default=0
    )


def _checkpoints(model: PreTrainedModel) -> bool:
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def _refusal_of_values(model: PreTrainedModel) -> str | None:
    rows = _probe_rows(model)
    with torch.no_grad():
        try:
            packed = run_packed(model, rows).logits[0].index_select(0, rows.sources)
        except (ModelError, KeyError, TypeError, RuntimeError) as error:
            return str(error)
        plain = torch.cat([_alone(model, row) for row in range(len(_PROMPTS))])
    return None if same_logits(packed, plain) else "packed rows change its values"


def _refusal_of_gradients(model: PreTrainedModel, *, rounded: bool) -> str | None:
    """What is wrong with the gradients: a layer may be recomputed with its own attention."""
    rows = _probe_rows(model)
    with torch.enable_grad():
        try:
            packed = run_packed(model, rows).logits[0].index_select(0, rows.sources)
            ours = _gradients(model, packed, rows.targets)
        except (ModelError, RuntimeError) as error:
            return f"in its backward pass, {error}"
        plain = torch.cat([_alone(model, row) for row in range(len(_PROMPTS))])
        theirs = _gradients(model, plain, rows.targets)
    largest = max((float(b.abs().max()) for b in theirs), default=0.0)
    own, share = (5e-2, 5e-2) if rounded else (1e-3, 1e-5)
    for a, b in zip(ours, theirs, strict=True):
        if float((a - b).abs().max()) > own * float(b.abs().max()) + share * largest:
            return "packed rows change its gradients (is it another attention that is recomputed?)"
    return None


def _gradients(model: PreTrainedModel, logits: Tensor, targets: Tensor) -> list[Tensor]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    score = torch.log_softmax(logits.float(), dim=-1).gather(1, targets[:, None]).sum()
    found = torch.autograd.grad(score, parameters, allow_unused=True)
    return [torch.zeros(()) if g is None else g.detach().nan_to_num() for g in found]


def _alone(model: PreTrainedModel, row: int) -> Tensor:
    ids = torch.tensor([*_PROMPTS[row], *_COMPLETIONS[row]], device=model.device)
    ids = ids % model.config.get_text_config().vocab_size
    logits: Tensor = model(
        input_ids=ids[None], attention_mask=torch.ones_like(ids)[None], use_cache=False
    ).logits
    return logits[0, len(_PROMPTS[row]) - 1 : -1]


def _probe_rows(model: PreTrainedModel) -> PackedRows:
    vocabulary = model.config.get_text_config().vocab_size
    prompts, completions = (
        [[token % vocabulary for token in row] for row in rows] for rows in (_PROMPTS, _COMPLETIONS)
    )
    return pack(prompts, completions, device=model.device, least_saved=0)
