"""TRL's rows through the packed forward, in which the completions of a prompt share it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from accelerate.utils import is_peft_model
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedTokenizerBase

from dph.engines.trl.config import DPHConfig
from dph.errors import SettingsError
from dph.loss.objectives.penalties import EntropyBonus
from dph.model.forward.logprobs import RowStatistic, completion_scores, spread
from dph.model.forward.sharing import packing_support
from dph.model.releases import checkpoint_contexts

_SETTINGS = {
    "use_liger_kernel": "its loss and layers replace the forward that is packed",
    "cast_lm_head_to_fp32": "the packed forward runs the head in the precision of the model",
    "fp16": "the packed forward is tested in float32 and bfloat16",
    "torch_compile": "a compiled layer keeps its own attention",
    "neftune_noise_alpha": "completions that share a prompt would share its noise",
}


def refuse_settings(args: DPHConfig) -> None:
    """Refuse settings of TRL under which prompts cannot be shared, before a model is loaded."""
    for name, reason in _SETTINGS.items():
        if value := getattr(args, name):
            raise _refused(f"{name}={value!r}", reason)


def refuse_trainer(trainer: Any) -> None:
    model, tokenizer = _core(trainer.model), trainer.processing_class
    adapters = trainer.model.peft_config.values() if model is not trainer.model else ()
    kinds = {getattr(a.peft_type, "value", a.peft_type) for a in adapters} - {"LORA"}
    if any(getattr(adapter, "alora_invocation_tokens", None) for adapter in adapters):
        kinds.add("aLoRA")
    parallel = getattr(trainer.accelerator, "parallelism_config", None)
    distributed = trainer.accelerator.distributed_type.value
    unsloth = any("Unsloth" in kind.__name__ for kind in type(trainer).__mro__)
    for refused, what, reason in (
        (unsloth, "Unsloth", "its trainer replaces TRL's loss"),
        (distributed not in ("NO", "MULTI_CPU", "MULTI_GPU"), distributed, "only with DDP"),
        (parallel and parallel.non_data_parallel_size > 1, "parallelism_config", "only with DDP"),
        (trainer.args.n_gpu > 1, "nn.DataParallel", "start a process for each GPU"),
        (len(set(getattr(model, "hf_device_map", {}).values())) > 1, "device_map", "one device"),
        (getattr(model, "is_quantized", False), "quantized weights", "not tested"),
        (not isinstance(tokenizer, PreTrainedTokenizerBase), type(tokenizer).__name__, "only text"),
        (trainer.aux_loss_enabled, "the loss of routers", "set router_aux_loss_coef=0.0"),
        (kinds, f"peft_config of {', '.join(sorted(kinds))}", "of adapters, only LoRA"),
    ):
        if refused:
            raise _refused(what, reason)
    _require_support(model, [])


def _refused(what: str, reason: str) -> SettingsError:
    return SettingsError(f"shared_prompts=True does not work with {what}: {reason}")


def _core(policy: Any) -> Any:
    """The model below an adapter, whose layers hold the adapter's weights."""
    return policy.get_base_model() if is_peft_model(policy) else policy


def _require_support(model: Any, prompts: Sequence[Sequence[int]]) -> None:
    refusal = packing_support(model, prompts).refusal
    if model.training and any(isinstance(m, nn.Dropout) and m.p > 0 for m in model.modules()):
        refusal = refusal or "it trains with dropout (disable_dropout=True is the default)"
    if refusal is not None:
        raise _refused(type(model).__name__, refusal)


def shared_scores(
    trainer: Any,
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    logits_to_keep: int,
    batch_size: int | None = None,
    compute_entropy: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor | None, None]:
    """Log-probs of the last tokens of padded rows, and their entropies, as TRL's own method."""
    size = batch_size or len(input_ids)
    cut = (torch.split(table, size) for table in (input_ids, attention_mask))
    parts = [
        _scores(trainer, model, ids, mask, logits_to_keep, compute_entropy)
        for ids, mask in zip(*cut, strict=True)
    ]
    logprobs, *entropies = (torch.cat(column) for column in zip(*parts, strict=True))
    return logprobs, entropies[0] if entropies else None, None


def _scores(trainer: Any, model: Any, ids: Tensor, mask: Tensor, keep: int, entropy: bool) -> Any:
    policy = trainer.accelerator.unwrap_model(model)
    core, seen = _core(policy), mask[:, -keep:].bool()
    rows = list(zip(ids.cpu(), mask.bool().cpu(), strict=True))
    # One token of a completion that is masked as a whole: every process must run some rows.
    lengths = [max(1, int(real[-keep:].sum())) for _, real in rows]
    prompts = [row[:-keep][real[:-keep]].tolist() for row, real in rows]
    completions = [row[-keep:][:n].tolist() for (row, _), n in zip(rows, lengths, strict=True)]
    trained = trainer._entropy_bonus_enabled and torch.is_grad_enabled()
    statistic = RowStatistic(torch.ones(len(ids), dtype=torch.bool), partial(_entropy, trained))
    options = {"temperature": trainer.temperature, "pad_id": trainer.pad_id}
    options["statistics"] = [statistic] if entropy else []

    def compute() -> tuple[Tensor, ...]:
        scores = completion_scores(core, prompts, completions, **options)
        found = [scores.logprobs, *(spread(s[:, 0], scores.mask) for s in scores.statistics)]
        return tuple(pad(x, (0, keep - x.shape[1])).where(seen, 0.0) for x in found)

    if core.training and torch.is_grad_enabled():
        # Checkpointed layers attend in their second forward as in their first.
        again = {"use_reentrant": False, "context_fn": checkpoint_contexts}
        for module in core.modules():  # every time: TRL sets it again after a rollout
            if function := getattr(module, "_gradient_checkpointing_func", None):
                module._gradient_checkpointing_func = partial(function, **again)
    with trainer.accelerator.autocast():
        _require_support(core, prompts)
        return compute() if model is policy else _within(model, ids, compute)


def _entropy(trained: bool, table: Tensor, _: slice) -> Tensor:
    with torch.set_grad_enabled(trained):
        return -EntropyBonus().over_vocabulary(table, None)[:, None]


def _within(ddp: Any, ids: Tensor, compute: Callable[[], Any]) -> Any:
    """Call ``compute`` within the forward of DDP, which prepares its gradient hooks there."""
    stand_in, policy = nn.Module(), ddp.module
    stand_in.policy = policy  # DDP sends its buffers to all processes
    stand_in.forward = lambda _: compute()
    ddp.module = stand_in
    try:
        return ddp(ids)
    finally:
        ddp.module = policy


def regrouped(batches: Sequence[dict[str, Any]], window: int) -> list[dict[str, Any]]:
    """The micro-batches, with the rows of a prompt together in every ``window`` of them."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(batches), window):
        part = batches[start : start + window]
        names = [n for n, value in part[0].items() if isinstance(value, Tensor) and value.dim()]
        tables = {name: torch.cat([batch[name] for batch in part]) for name in names}
        _, prompts = torch.unique(tables["prompt_ids"], dim=0, return_inverse=True)
        order = prompts.argsort(stable=True).view(len(part), -1)
        for batch, rows in zip(part, order, strict=True):
            found.append(batch | {name: table[rows] for name, table in tables.items()})
    return found
