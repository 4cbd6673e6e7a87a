"""Policy rows and stored rows of a tiny Llama, and their loss by plain autograd."""

import random
from dataclasses import replace
from itertools import compress
from types import SimpleNamespace

import torch

from dph.model.forward.logprobs import completion_scores
from first_step import flags
from loop_parts import stored_answer
from scored_completions import score_completions
from tiny_models import VOCABULARY, build_model

TEMPERATURE = 0.9
LOW, HIGH, DUAL = 0.2, 0.28, 3.0
FAR = 9
"""Seed of the answers of a second pool."""


def make_model():
    """Weights small enough for a float32 gradient to have six digits."""
    return build_model(initializer_range=0.1)


def tokens(rng, longest):
    return tuple(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(1, longest)))


def drawn(count, rng):
    """Prompts, answers, and the model's log-probs of them."""
    prompts = [tokens(rng, 6) for _ in range(count)]
    completions = [tokens(rng, 8) for _ in range(count)]
    settings = {"temperature": TEMPERATURE, "pad_id": 0, "token_budget": 512, "dtype": "float32"}
    now = score_completions(make_model(), prompts, completions, **settings)
    return list(zip(prompts, completions, now, strict=True))


def policy_rows(count, *, seed=0):
    """Answers with advantages, and log-probs of an older and of a reference policy."""
    rng = random.Random(seed)
    return [
        SimpleNamespace(
            prompt_ids=prompt,
            completion_ids=completion,
            # Far enough from 0 that some ratios are clipped on either side.
            old=tuple(v + rng.uniform(-0.5, 0.5) for v in values),
            reference=tuple(v + rng.uniform(-0.3, 0.3) for v in values),
            advantage=rng.choice((-1.5, -0.5, 0.7, 1.2)),
        )
        for prompt, completion, values in drawn(count, rng)
    ]


def stored_samples(count, *, seed=1):
    """Stored answers whose log-probs are not the policy's any more."""
    rng = random.Random(seed)
    return [
        stored_answer(
            completion,
            tuple(v + rng.uniform(-1, 1) for v in values),
            prompt=prompt,
            problem=f"s{i}",
            index=8,
        )
        for i, (prompt, completion, values) in enumerate(drawn(count, rng))
    ]


def acted(samples):
    """The same answers as trajectories, whose tools wrote some of the tokens."""
    return [
        replace(
            sample,
            written=(mine := flags(sample.completion_ids)),
            ref_logprobs=tuple(compress(sample.ref_logprobs, mine)),
        )
        for sample in samples
    ]


def _each(model, rows):
    scores = completion_scores(
        model,
        [row.prompt_ids for row in rows],
        [row.completion_ids for row in rows],
        temperature=TEMPERATURE,
        pad_id=0,
    )
    return [scores.logprobs[i, : len(row.completion_ids)] for i, row in enumerate(rows)]


def policy_loss(model, rows):
    """Token mean of the clipped loss with verl's dual clip, row by row and by hand."""
    terms = []
    for row, now in zip(rows, _each(model, rows), strict=True):
        ratio = torch.exp(now - torch.tensor(row.old))
        loss = torch.maximum(
            -row.advantage * ratio, -row.advantage * ratio.clamp(1 - LOW, 1 + HIGH)
        )
        if row.advantage < 0:
            loss = torch.minimum(loss, torch.tensor(-row.advantage * DUAL))
        terms.append(loss)
    return torch.cat(terms).mean()


def own_policy_loss(model, rows, weight):
    """Token means of -A r without clipping, and of the squared probability."""
    each = list(zip(rows, _each(model, rows), strict=True))
    losses = [-row.advantage * torch.exp(now - torch.tensor(row.old)) for row, now in each]
    penalties = [torch.exp(2 * now) for _, now in each]
    return torch.cat(losses).mean() + weight * torch.cat(penalties).mean()


def log_ratios(model, samples):
    return [
        now - torch.tensor(sample.ref_logprobs)
        for sample, now in zip(samples, _each(model, samples), strict=True)
    ]


def stored_loss(model, samples, name):
    """Token mean of the divergence on stored answers, in its textbook form."""
    x = torch.cat(log_ratios(model, samples))
    u = x.exp()
    match name:
        case "forward_kl":
            values = u - 1 - x
        case "jensen_shannon":
            values = u * x - (u + 1) * torch.log((u + 1) / 2)
        case "alpha":
            values = (u.sqrt() - 0.5 * u - 0.5) / -0.25
        case "reverse_kl":
            values = u * x - u + 1
        case "definition":
            z = torch.log((1 + u) / 2)
            values = z.exp() - 1 - z
    return values.mean()


def to_reference(model, rows):
    """Log-ratios to the reference and ratios to the older policy, of all of the answers' tokens."""
    now = torch.cat(_each(model, rows))
    x, log_ratio = (
        now - torch.tensor([value for row in rows for value in getattr(row, name)])
        for name in ("reference", "old")
    )
    return x, log_ratio.exp()


def definition_policy_half(model, rows):
    """Token mean of r log(2 sigmoid(x)) - (r - 1) / 2 on the policy's answers."""
    x, ratio = to_reference(model, rows)
    return (ratio * torch.log(2 * torch.sigmoid(x)) - (ratio - 1) / 2).mean()


def unbiased_kl(model, rows):
    """Token mean of r (exp(-x) - 1 + x) on the policy's answers."""
    x, ratio = to_reference(model, rows)
    return (ratio * (torch.exp(-x) - 1 + x)).mean()


def loss_and_norm(loss, model):
    loss.backward()
    norm = torch.stack([p.grad.square().sum() for p in model.parameters()]).sum().sqrt()
    return float(loss.detach()), float(norm)
