"""The peer's side: the calls of TRL's GRPOTrainer that make its kernels, on a device that counts.

``generate`` on repeated, left-padded prompts; then, micro-batch by micro-batch, log-probs through
its fused head, the loss and its gradient; clipping and a fused AdamW. Its Triton kernels count as
one launch each and calculate nothing, so Triton need not be there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from counting_device import CountingDevice, Counts
from lab.benchmarks.speed.shapes import Shape
from lab.benchmarks.speed.world import END, PAD

PARTS = ("forward + loss", "backward", "clip + AdamW")
MICRO_ROWS = 16
PROMPT = 16
"""Tokens of a prompt of ``generate``; launches a token do not depend on it."""


def is_there() -> bool:
    """Whether TRL is installed."""
    return find_spec("trl") is not None


class _Kernel:
    """A Triton kernel: one launch."""

    def __init__(self, device: CountingDevice, name: str) -> None:
        self._device, self._name = device, name

    def __getitem__(self, grid: Any) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> None:
        self._device.launch(self._name)


@contextmanager
def _triton_kernels(device: CountingDevice) -> Iterator[None]:
    """Take the branches that TRL takes where Triton is."""
    import trl.kernels.chunked_logprob as chunked  # noqa: PLC0415

    replaced = {
        name: _Kernel(device, name)
        for name in ("_forward_kernel", "_backward_kernel", "_addmm_fp32")
    }
    tools = SimpleNamespace(cdiv=lambda a, b: -(-a // b))
    with (
        mock.patch.multiple(chunked, _TRITON_AVAILABLE=True, **replaced),
        mock.patch.object(chunked, "triton", tools, create=True),
    ):
        yield


def count_update(device: CountingDevice, model: PreTrainedModel, shape: Shape) -> dict[str, Counts]:
    """Counts of an update, by part."""
    from trl.trainer.utils import add_fused_lm_head  # noqa: PLC0415

    add_fused_lm_head(model, temperature=1.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    for parameter in model.parameters():  # the step that is counted is not the optimizer's first
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    model.train()
    rows = _words(model, shape.rows, shape.prompt + shape.completion)
    regions = [f"TRL: {part}" for part in PARTS]
    forward, backward, last = regions
    with _triton_kernels(device):
        for start in range(0, shape.rows, MICRO_ROWS):
            with device.counting(forward):
                loss = _loss(model, rows[start : start + MICRO_ROWS], shape.completion)
            with device.counting(backward):
                loss.backward()
    with device.counting(last):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return {part: device.counts[region] for part, region in zip(PARTS, regions, strict=True)}


def _loss(model: PreTrainedModel, rows: Tensor, completion: int) -> Tensor:
    labels = rows.clone()
    labels[:, :-completion] = -100
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(
            input_ids=rows,
            attention_mask=torch.ones_like(rows),
            labels=labels,
            fused_lm_head=True,
        )
    logprobs = out.log_probs[:, -completion:]
    ratio = torch.exp(logprobs - logprobs.detach())
    advantages = torch.ones(len(rows), 1, device="cuda")
    gains = torch.min(ratio * advantages, torch.clamp(ratio, 0.8, 1.2) * advantages)
    return -gains.sum() / logprobs.numel()


def count_tokens(
    device: CountingDevice, model: PreTrainedModel, *, rows: int, lengths: tuple[int, int] = (3, 6)
) -> tuple[float, float]:
    """Launches and waits of a token, from the difference of two calls of ``generate``."""
    ids = _words(model, rows, PROMPT)
    model.eval()
    found = []
    for tokens in lengths:
        config = GenerationConfig(
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=True,
            top_k=0,
            pad_token_id=PAD,
            eos_token_id=END,
        )
        with (
            torch.no_grad(),
            torch.autocast("cuda", dtype=torch.bfloat16),
            device.counting(f"generate {tokens}") as counts,
        ):
            model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config
            )
        found.append(counts)
    steps = lengths[1] - lengths[0]
    short, long = found
    return (long.launches - short.launches) / steps, (long.waits - short.waits) / steps


def _words(model: PreTrainedModel, rows: int, tokens: int) -> Tensor:
    vocabulary = model.config.vocab_size
    return torch.randint(2, vocabulary, (rows, tokens)).to("cuda")
