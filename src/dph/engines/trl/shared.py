"""TRL's rows through the packed forward, in which the completions of a prompt share it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from accelerate import DistributedType
from accelerate.utils import is_peft_model
from peft import PeftType
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph.engines.trl.config import DPHConfig
from dph.errors import SettingsError
from dph.loss.objectives.penalties import EntropyBonus
from dph.model.attention.releases import checkpoint_contexts
from dph.model.forward.logprobs import RowStatistic, completion_scores, spread
from dph.model.forward.sharing import packing_support

_SETTINGS: Mapping[str, str] = {
    "use_liger_kernel": "its loss and layers replace the forward that is packed",
    "cast_lm_head_to_fp32": "the packed forward runs the head in the precision of the model",
    "fp16": "the packed forward is tested in float32 and bfloat16",
    "torch_compile": "a compiled layer keeps its own attention",
    "neftune_noise_alpha": "completions that share a prompt would share its noise",
}
_DISTRIBUTED = ("NO", "MULTI_CPU", "MULTI_GPU")
"""One process, and DDP."""


def refuse_settings(args: DPHConfig) -> None:
    """Refuse settings of TRL under which prompts cannot be shared, before a model is loaded.

    Raises:
        SettingsError: names the setting, its value and the reason.
    """
    for name, reason in _SETTINGS.items():
        if value := getattr(args, name, None):
            raise _refused(f"{name}={value!r}", reason)


def refuse_trainer(trainer: Any) -> None:
    """Refuse a model or a way to run it under which prompts cannot be shared.

    Raises:
        SettingsError: names it and the reason.
    """
    kind, policy = trainer.accelerator.distributed_type, trainer.model
    if DistributedType(kind).value not in _DISTRIBUTED:
        raise _refused(DistributedType(kind).value, "it works in one process and under DDP")
    parallel = getattr(trainer.accelerator, "parallelism_config", None)
    if parallel is not None and parallel.non_data_parallel_size > 1:
        raise _refused("a parallelism_config that splits rows or weights", "packed rows are whole")
    if not isinstance(trainer.processing_class, PreTrainedTokenizerBase):
        found = type(trainer.processing_class).__name__
        raise _refused(found, "images are not packed: the processing class must be a tokenizer")
    if trainer.aux_loss_enabled:
        raise _refused("the loss of routers", "set router_aux_loss_coef=0.0, or share no prompts")
    if is_peft_model(policy):
        _refuse_adapter(policy)
    model = core_of(policy)
    if getattr(model, "is_quantized", False):
        raise _refused("quantized weights", "the packed forward was not tested with them")
    if len(set(getattr(model, "hf_device_map", {}).values())) > 1:
        raise _refused("device_map", "packed rows are on one device, this model is on several")
    _require_support(model, [])


def _refuse_adapter(policy: Any) -> None:
    for config in policy.peft_config.values():
        if config.peft_type != PeftType.LORA:
            reason = "of adapters, only LoRA is part of the layers that the packed forward runs"
            raise _refused(f"peft_config of {PeftType(config.peft_type).value}", reason)
        if getattr(config, "alora_invocation_tokens", None):
            raise _refused("alora_invocation_tokens", "that adapter acts on a part of each row")


def _refused(what: str, reason: str) -> SettingsError:
    return SettingsError(f"shared_prompts=True does not work with {what}: {reason}")


def core_of(policy: Any) -> PreTrainedModel:
    """The model below an adapter, whose layers hold the adapter's weights."""
    model: PreTrainedModel = policy.get_base_model() if is_peft_model(policy) else policy
    return model


def _require_support(model: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> None:
    refusal = packing_support(model, prompts).refusal
    if refusal is None and model.training:
        active = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p > 0]
        refusal = "it trains with dropout (disable_dropout=True is the default)" if active else None
    if refusal is not None:
        raise _refused(type(model).__name__, refusal)


def shared_scores(
    trainer: Any, model: Any, ids: Tensor, mask: Tensor, *, keep: int, entropy: bool
) -> tuple[Tensor, ...]:
    """Log-probs of the last ``keep`` tokens of padded rows, and their entropies if asked for.

    As TRL's own, both are 0 where ``mask`` is. Positions are counted from a row's first token, as
    when it was generated.

    Raises:
        SettingsError: the model does not run packed rows, or trains with dropout.
    """
    policy = trainer.accelerator.unwrap_model(model)
    core, seen = core_of(policy), mask[:, -keep:].bool()
    prompts, completions = _rows(ids, mask, keep)

    def compute() -> tuple[Tensor, ...]:
        scores = completion_scores(
            core,
            prompts,
            completions,
            temperature=trainer.temperature,
            pad_id=trainer.pad_id,
            statistics=_entropies(len(ids), trainer._entropy_bonus_enabled) if entropy else (),
        )
        found = [scores.logprobs, *(spread(s[:, 0], scores.mask) for s in scores.statistics)]
        wide = [pad(values, (0, keep - values.shape[1])) for values in found]
        return tuple(torch.where(seen, values, 0.0) for values in wide)

    if core.training and torch.is_grad_enabled():
        _recompute_packed(core)
    with trainer.accelerator.autocast():
        _require_support(core, prompts)
        return _through(model, policy, ids, compute)


def _rows(ids: Tensor, mask: Tensor, keep: int) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts and completions without padding.

    A completion that TRL masks as a whole keeps one token, so that every process has rows to run.
    """
    rows = list(zip(ids.cpu(), mask.bool().cpu(), strict=True))
    prompts = [row[:-keep][real[:-keep]].tolist() for row, real in rows]
    return prompts, [
        (row[-keep:][real[-keep:]] if real[-keep:].any() else row[-keep:][:1]).tolist()
        for row, real in rows
    ]


def _entropies(rows: int, trained: bool) -> list[RowStatistic]:
    def entropy(table: Tensor, _: slice) -> Tensor:
        with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
            return -EntropyBonus().over_vocabulary(table, None)[:, None]

    return [RowStatistic(torch.ones(rows, dtype=torch.bool), entropy)]


def _recompute_packed(model: PreTrainedModel) -> None:
    """Let checkpointed layers attend in their second forward as in their first."""
    for module in model.modules():
        function = getattr(module, "_gradient_checkpointing_func", None)
        if function is not None:  # TRL sets it anew after every rollout
            # The reentrant form has no place for a context.
            again = partial(function, use_reentrant=False, context_fn=checkpoint_contexts)
            module._gradient_checkpointing_func = again


def _through(
    wrapper: Any, policy: Any, ids: Tensor, compute: Callable[[], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """Call ``compute`` within the forward of DDP, which prepares its gradient hooks there."""
    if wrapper is policy:
        return compute()
    own = vars(policy).get("forward")

    def restore() -> None:
        vars(policy).pop("forward", None)
        if own is not None:
            policy.forward = own

    def once(_: Tensor) -> tuple[Tensor, ...]:
        restore()
        return compute()

    policy.forward = once
    try:
        found: tuple[Tensor, ...] = wrapper(ids)
        return found
    finally:
        restore()


def regrouped(batches: Sequence[dict[str, Any]], window: int) -> list[dict[str, Any]]:
    """The micro-batches with the rows of a prompt next to each other in every ``window`` of them.

    TRL shuffles a rollout's rows before it splits them, which leaves little to share. Prompts keep
    the order in which the shuffle first named them.
    """
    found: list[dict[str, Any]] = []
    for start in range(0, len(batches), window):
        part = batches[start : start + window]
        tables = {
            name: torch.cat([batch[name] for batch in part])
            for name, value in part[0].items()
            if isinstance(value, Tensor) and value.dim()
        }
        first: dict[tuple[int, ...], int] = {}
        keys = [first.setdefault(tuple(row), len(first)) for row in tables["prompt_ids"].tolist()]
        order = torch.tensor(sorted(range(len(keys)), key=keys.__getitem__))
        for batch, rows in zip(part, order.view(len(part), -1), strict=True):
            found.append(batch | {name: table[rows] for name, table in tables.items()})
    return found
