"""The other side: ``generate``, padded updates, TRL and vLLM, on the same weights and rows."""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import GenerationConfig, PreTrainedModel

from dph.model.loading import autocast, evaluating
from dph.recipe import TrainingSettings
from dph.runs.train.optimizer import make_optimizer
from lab.benchmarks.gpu.check import Check
from lab.benchmarks.gpu.places import Fit, Place
from lab.benchmarks.gpu.steps import Groups, given_groups
from lab.benchmarks.speed.runs import Row
from lab.benchmarks.speed.world import END, PAD, World, build_tokenizer

SHORT, LONG = 4, 20
"""Tokens of two calls of ``generate`` whose difference is that of a token."""
PREFILL = 2**18
"""Prompt tokens of a call of ``generate``; more rows than that take several calls."""
HEAD = 4096
"""Positions whose logits are there at once."""


def measure(check: Check, row: Row, place: Place, model: PreTrainedModel, fitted: Fit) -> None:
    """Fill the row of ``generate`` and padded updates."""
    if not place.scored:
        _generate(check, row, place, model)
    _padded(check, row, place, model, fitted)
    if "sampling_s" in row and "update_s" in row:
        check.note(row, step_s=row["sampling_s"] + row["update_s"])


# Sampling by transformers.


def _generate(check: Check, row: Row, place: Place, model: PreTrainedModel) -> None:
    """Whole where it is short; else from the difference of two calls, early in their rollout.

    Tokens that end a row are left out: the longest row decides how long it takes.
    """
    shape = place.shape
    prompts = [prompt for prompt, _ in given_groups(place) for _ in range(shape.samples)]
    at_once = prompts[: max(1, PREFILL // shape.prompt)]
    calls = len(prompts) / len(at_once)
    ids = torch.tensor(at_once, device=check.device)

    def draw(tokens: int) -> None:
        config = GenerationConfig(
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=True,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            pad_token_id=PAD,
            eos_token_id=END,
            disable_compile=True,
        )
        with evaluating(model), torch.no_grad(), autocast(model, "bfloat16"):
            model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config
            )

    if shape.completion <= 64:
        check.measure(row, "sampling", lambda: draw(shape.completion), repeats=2)
        return
    first = check.measure(row, f"first_{SHORT}", lambda: draw(SHORT), repeats=1, traced=False)
    if first is None:
        return
    more = check.measure(row, f"first_{LONG}", lambda: draw(LONG), repeats=1, warm_up=0)
    if more is not None:
        token = (more - first) / (LONG - SHORT)
        whole = calls * (first + token * (shape.completion - SHORT))
        found = {"token_s": token, "sampling_s": whole, "extrapolated": True}
        check.note(row, **found, generate_rows=len(at_once))


# The usual update: every row whole.


def _padded(check: Check, row: Row, place: Place, model: PreTrainedModel, fitted: Fit) -> None:
    """Micro-batches of as many tokens as ours, whole or one that stands for all."""
    shape = place.shape
    micro = max(1, fitted.tokens // place.longest)
    whole = shape.rows <= 4 * micro
    needed = -(-shape.rows // shape.samples) if whole else -(-micro // shape.samples)
    groups = given_groups(place, needed)
    rows = [(prompt, answer) for prompt, answers in groups for answer in answers]
    rows = rows if whole else rows[:micro]
    optimizer = make_optimizer(model, TrainingSettings(learning_rate=1e-6))

    def learn() -> None:
        model.train()
        for start in range(0, len(rows), micro):
            _backward(model, rows[start : start + micro], check.device)
        trained = [p for p in model.parameters() if p.grad is not None]
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    check.begin_peak()
    seconds = check.measure(row, "micro", learn, repeats=2)
    if seconds is not None:
        share = shape.rows / len(rows)
        tokens = sum(len(prompt) + len(answer) for prompt, answer in rows)
        check.note(
            row,
            update_s=seconds * share,
            micro_rows=len(rows),
            **({"update_tokens_per_s": tokens / seconds} if seconds > 0 else {}),
            **({"extrapolated": True} if share > 1 else {}),
            **({} if (peak := check.peak_gib()) is None else {"update_peak_gib": peak}),
        )


def _backward(
    model: PreTrainedModel, rows: list[tuple[tuple[int, ...], tuple[int, ...]]], device: str
) -> None:
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((len(rows), width), PAD)
    there, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for place, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids[place, :end] = torch.tensor([*prompt, *answer])
        there[place, :end] = 1
        labels[place, len(prompt) - 1 : end - 1] = torch.tensor(answer)
    with autocast(model, "bfloat16"):
        hidden = model.base_model(
            input_ids=ids.to(device), attention_mask=there.to(device), use_cache=False
        ).last_hidden_state
        chosen = labels.to(device) != -100
        read, wanted = hidden[chosen], labels.to(device)[chosen]

        def of(some: Tensor, targets: Tensor) -> Tensor:
            return cross_entropy(model.lm_head(some).float(), targets, reduction="sum")

        loss = sum(
            checkpoint(of, read[i : i + HEAD], wanted[i : i + HEAD], use_reentrant=False)
            for i in range(0, len(wanted), HEAD)
        )
    torch.autograd.backward(loss / len(wanted))


# TRL and vLLM, where they are installed.


def measure_trl(
    check: Check, shape: str, world: World, make: Callable[[], PreTrainedModel]
) -> None:
    """Steps of its own training loop."""
    if find_spec("trl") is None or find_spec("datasets") is None:
        print("TRL is not installed: not measured")
        return
    row = check.row("gpu", "half: TRL", shape=shape, side="TRL")
    with check.guarded(row, "TRL"):
        check.require(0.0 if check.tiny else 40.0)
        from statistics import median  # noqa: PLC0415

        from lab.benchmarks.speed.peer_trl import PeerSettings, make_trainer, run_trl  # noqa: PLC0415

        check.begin_peak()
        with tempfile.TemporaryDirectory(prefix="dph-gpu-") as scratch:
            steps = run_trl(
                make_trainer(world, make(), Path(scratch), PeerSettings(steps=1 + 2 * check.cuda))
            )
        whole = median(time.step for time in steps.times)
        update = median(time.update for time in steps.times)
        check.note(row, step_s=whole, update_s=update, sampling_s=whole - update)


def measure_vllm(check: Check, shape: str, place: Place, model: PreTrainedModel) -> None:
    """Its rollout of the same prompts; weights go through a directory."""
    if find_spec("vllm") is None or not check.cuda:
        print("vLLM is not installed, or there is no GPU for it: not measured")
        return
    row = check.row("gpu", "half: vLLM", shape=shape, side="vLLM")
    with check.guarded(row, "vLLM"), tempfile.TemporaryDirectory() as scratch:
        check.require(75.0)
        import vllm  # noqa: PLC0415

        model.save_pretrained(scratch)
        build_tokenizer(place.size).save_pretrained(scratch)
        engine = vllm.LLM(
            scratch,
            dtype="bfloat16",
            skip_tokenizer_init=True,
            gpu_memory_utilization=0.5,
            max_model_len=place.longest,
        )
        parameters = vllm.SamplingParams(
            n=place.shape.samples,
            max_tokens=place.shape.completion,
            temperature=1.0,
            ignore_eos=True,
            detokenize=False,
        )
        groups: Groups = given_groups(place)
        prompts = [{"prompt_token_ids": list(prompt)} for prompt, _ in groups]
        check.measure(
            row,
            "sampling",
            lambda: engine.generate(prompts, parameters, use_tqdm=False),
            traced=False,
        )
