"""The gradient of an optimizer step by plain autograd: one row at a time, float64, textbook f."""

import math
from dataclasses import dataclass

import torch
from transformers import TrainerCallback

from dph.runs.presample.pool import load_pool
from dph.runs.train.rows import rehearsal_of_step
from engines.trl.small import TEMPERATURE, make_small_model

TEXTBOOK = {
    "forward_kl": lambda u: u - 1 - u.log(),
    "jensen_shannon": lambda u: u * u.log() - (u + 1) * ((u + 1) / 2).log(),
    "alpha": lambda u: (u**0.5 - 0.5 * u - 0.5) / (0.5 * -0.5),
}


@dataclass
class Step:
    """What an optimizer step started from, what it saw, and the gradient that it took."""

    number: int
    weights: dict
    gradient: dict
    batches: list


class Recorder(TrainerCallback):
    """Keeps the steps of a trainer."""

    def __init__(self, trainer):
        self.trainer, self.steps, self._weights = trainer, [], {}

    def on_step_begin(self, args, state, control, model=None, **_):  # noqa: ARG002
        self._weights = {n: p.detach().clone() for n, p in model.named_parameters()}

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):  # noqa: ARG002
        gradient = {n: p.grad.detach().clone() for n, p in model.named_parameters()}
        names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
        batches = [{name: b[name] for name in names} for b in self.trainer._buffered_inputs]
        self.steps.append(Step(state.global_step, self._weights, gradient, batches))


def record(trainer):
    """Train and give back the steps."""
    recorder = Recorder(trainer)
    trainer.add_callback(recorder)
    trainer.train()
    return recorder.steps


def entropy_gradient_by_hand(weights, batches, *, weight, temperature):
    """d/dw of mean(-A r - weight * H) over the new tokens."""
    model = _model_of(weights)
    loss, tokens = policy_term(model, batches, temperature), 0
    entropy = torch.zeros((), dtype=torch.float64)
    for prompt, completion, _ in (row for batch in batches for row in _rows(batch)):
        table = logprobs_over_vocabulary(model, prompt, completion, temperature)
        entropy, tokens = entropy - (table.exp() * table).sum(), tokens + len(completion)
    (loss - weight * entropy / tokens).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def _model_of(weights):
    model = make_small_model()
    model.load_state_dict(weights, strict=False)
    return model.double()


def gradient_by_hand(weights, batches, stored, *, divergence, eta, temperature):
    """d/dw of mean(-A r) over the new tokens + eta * mean(f(u)) over the stored ones."""
    model = _model_of(weights)
    stored_tokens = sum(len(row.completion_ids) for row in stored)
    loss = policy_term(model, batches, temperature)
    for row in stored:
        logprobs = _logprobs(model, row.prompt_ids, row.completion_ids, temperature)
        ratio = (logprobs - torch.tensor(row.ref_logprobs, dtype=torch.float64)).exp()
        loss = loss + eta * TEXTBOOK[divergence](ratio).sum() / stored_tokens
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}


def policy_term(model, batches, temperature):
    """Mean of -A r over the new tokens."""
    new = [row for batch in batches for row in _rows(batch)]
    tokens = sum(len(completion) for _, completion, _ in new)
    loss = torch.zeros((), dtype=torch.float64)
    for prompt, completion, advantage in new:
        logprobs = _logprobs(model, prompt, completion, temperature)
        loss = loss - advantage * (logprobs - logprobs.detach()).exp().sum() / tokens
    return loss


def error_of(step, directory, *, divergence="forward_kl", batches=None, eta=0.5):
    """Of a step's gradient, with the seven stored answers that it rehearsed."""
    stored = rehearsal_of_step(load_pool(directory / "pool").rehearsal, 7, step.number + 1, seed=42)
    expected = gradient_by_hand(
        step.weights,
        batches or step.batches,
        stored,
        divergence=divergence,
        eta=eta,
        temperature=TEMPERATURE,
    )
    return relative_error(step.gradient, expected)


def relative_error(gradient, expected):
    """|g - e| / |e| over all weights together."""
    squares = [
        ((gradient[n].double() - e).square().sum(), e.square().sum()) for n, e in expected.items()
    ]
    difference, size = (float(sum(column)) for column in zip(*squares, strict=True))
    return math.sqrt(difference / size)


def _rows(batch):
    columns = (
        batch[n].tolist()
        for n in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    )
    for ids, mask, answer, whole, advantage in zip(
        *columns, batch["advantages"].tolist(), strict=True
    ):
        prompt = [token for token, real in zip(ids, mask, strict=True) if real]
        yield prompt, [token for token, real in zip(answer, whole, strict=True) if real], advantage


def logprobs_over_vocabulary(model, prompt, completion, temperature):
    """Log-probs of every token at every position of a completion."""
    ids = torch.tensor([[*prompt, *completion]])
    return (model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / temperature).log_softmax(-1)


def _logprobs(model, prompt, completion, temperature):
    table = logprobs_over_vocabulary(model, prompt, completion, temperature)
    return table[torch.arange(len(completion)), torch.tensor(completion)]
