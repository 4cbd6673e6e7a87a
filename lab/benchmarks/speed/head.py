"""Log-probs of targets through a large head: ours beside logits, softmax and gather."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dph.model.forward.selected_logprobs import selected_logprobs
from lab.benchmarks.speed.memory import measure_peak
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.timing import interleaved, relative_error

SIZES = {"large": (2048, 128_256, 256), "wide": (512, 128_256, 1024)}
"""Tokens, vocabulary, hidden size. Wide: the matrix products take most of the time."""
PEER = "log_softmax of all logits"
LogProbs = Float[Tensor, "tokens"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Hidden states, a head without bias, targets, and the weight of each log-prob in the loss."""

    hidden: Float[Tensor, "tokens hidden"]
    head: nn.Linear
    targets: Int[Tensor, "tokens"]
    weights: LogProbs


def measure(case: str, run: Run) -> list[Row]:
    """Forward and backward; results are compared first, peaks are of processes of their own.

    Raises:
        RuntimeError: log-probs or gradients differ by more than the run tolerates.
    """
    inputs = _inputs(case, run)
    results = [_results(_SIDES[side], inputs) for side in ("head", "plain_head")]
    error = max(relative_error([a], [b]) for a, b in zip(*results, strict=True))
    if not error <= run.gradient_tolerance:
        raise RuntimeError(f"the results differ by {error:.2g}")
    del results
    sides = {side: _work(side, inputs) for side in _SIDES}
    times = interleaved(sides, repeats=run.repeats)
    ours, plain = (measure_peak(side, case, run) for side in ("head", "plain_head"))
    outputs = (inputs.head.weight.nbytes + inputs.hidden.nbytes) / 2**20
    extra = {"ours": ours.added - outputs, "peer": plain.added - outputs}
    return [
        make_row(
            "head",
            case,
            run,
            shape=f"{len(inputs.hidden)} tokens x {inputs.head.out_features} words, "
            f"hidden {inputs.head.in_features}",
            ours=times["head"],
            peer=PEER,
            peer_timing=times["plain_head"],
            gradient_error=error,
            overhead=times["head"].median / times["plain_head"].median,
            ours_extra_mib=round(extra["ours"]),
            peer_extra_mib=round(extra["peer"]),
            extra_share=extra["ours"] / extra["peer"],
            gradients_mib=round(outputs),
        )
    ]


def prepare(side: str, case: str, run: Run) -> Callable[[], object]:
    """For a measurement of memory: forward and backward once."""
    return _work(side, _inputs(case, run))


def plain_logprobs(inputs: Inputs) -> LogProbs:
    """All logits, their softmax in float32, then the targets."""
    table = torch.log_softmax(inputs.head(inputs.hidden).float(), dim=-1)
    return table.gather(1, inputs.targets[:, None])[:, 0]


def our_logprobs(inputs: Inputs) -> LogProbs:
    """Without the tensor of all logits."""
    return selected_logprobs(inputs.hidden, inputs.head, inputs.targets, temperature=1.0)


_SIDES: Mapping[str, Callable[[Inputs], LogProbs]] = {
    "head": our_logprobs,
    "plain_head": plain_logprobs,
}


def _inputs(case: str, run: Run) -> Inputs:
    tokens, words, hidden = (64, 1000, 16) if run.quick else SIZES[case]
    torch.manual_seed(0)
    states = torch.randn(tokens, hidden, device=run.device, requires_grad=True)
    return Inputs(
        hidden=states,
        head=nn.Linear(hidden, words, bias=False, device=run.device),
        targets=torch.randint(words, (tokens,), device=run.device),
        weights=torch.randn(tokens, device=run.device),
    )


def _results(side: Callable[[Inputs], LogProbs], inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probs and both gradients."""
    inputs.hidden.grad = inputs.head.weight.grad = None
    logprobs = side(inputs)
    torch.autograd.backward((logprobs * inputs.weights).sum())
    assert inputs.hidden.grad is not None
    assert inputs.head.weight.grad is not None
    return logprobs.detach(), inputs.hidden.grad.clone(), inputs.head.weight.grad.clone()


def _work(side: str, inputs: Inputs) -> Callable[[], object]:
    def work() -> None:
        inputs.hidden.grad = inputs.head.weight.grad = None
        torch.autograd.backward((_SIDES[side](inputs) * inputs.weights).sum())

    return work
