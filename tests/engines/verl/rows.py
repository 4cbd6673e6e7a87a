"""Policy rows and stored rows of a tiny Llama, and their loss by plain autograd."""

import random
from dataclasses import replace
from itertools import compress
from types import SimpleNamespace

import torch

from dph.model.forward.logprobs import completion_scores, score_completions
from dph.runs.presample.tables import RehearsalSample
from first_step import flags
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


def scored(model, prompts, completions):
    return score_completions(
        model,
        prompts,
        completions,
        temperature=TEMPERATURE,
        pad_id=0,
        token_budget=512,
        dtype="float32",
    )


def policy_rows(count, *, seed=0):
    """Answers with advantages, and log-probs of an older and of a reference policy."""
    rng = random.Random(seed)
    prompts = [tokens(rng, 6) for _ in range(count)]
    completions = [tokens(rng, 8) for _ in range(count)]
    now = scored(make_model(), prompts, completions)
    return [
        SimpleNamespace(
            prompt_ids=prompt,
            completion_ids=completion,
            # Far enough from 0 that some ratios are clipped on either side.
            old=tuple(v + rng.uniform(-0.5, 0.5) for v in values),
            reference=tuple(v + rng.uniform(-0.3, 0.3) for v in values),
            advantage=rng.choice((-1.5, -0.5, 0.7, 1.2)),
        )
        for prompt, completion, values in zip(prompts, completions, now, strict=True)
    ]


def stored_samples(count, *, seed=1):
    """Stored answers whose log-probs are not the policy's any more."""
    rng = random.Random(seed)
    prompts = [tokens(rng, 6) for _ in range(count)]
    completions = [tokens(rng, 8) for _ in range(count)]
    now = scored(make_model(), prompts, completions)
    return [
        RehearsalSample(
            problem_id=f"s{i}",
            sample_index=8,
            prompt_ids=prompts[i],
            completion_ids=completions[i],
            ref_logprobs=tuple(v + rng.uniform(-1, 1) for v in now[i]),
            correct=8,
        )
        for i in range(count)
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
    losses, penalties = [], []
    for row, now in zip(rows, _each(model, rows), strict=True):
        losses.append(-row.advantage * torch.exp(now - torch.tensor(row.old)))
        penalties.append(torch.exp(2 * now))
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


def definition_policy_half(model, rows):
    """Token mean of r log(2 sigmoid(x)) - (r - 1) / 2 on the policy's answers."""
    values = []
    for row, now in zip(rows, _each(model, rows), strict=True):
        x, ratio = now - torch.tensor(row.reference), torch.exp(now - torch.tensor(row.old))
        values.append(ratio * torch.log(2 * torch.sigmoid(x)) - (ratio - 1) / 2)
    return torch.cat(values).mean()


def unbiased_kl(model, rows):
    """Token mean of r (exp(-x) - 1 + x) on the policy's answers."""
    values = []
    for row, now in zip(rows, _each(model, rows), strict=True):
        x, ratio = now - torch.tensor(row.reference), torch.exp(now - torch.tensor(row.old))
        values.append(ratio * (torch.exp(-x) - 1 + x))
    return torch.cat(values).mean()


def loss_and_norm(loss, model):
    loss.backward()
    norm = torch.stack([p.grad.square().sum() for p in model.parameters()]).sum().sqrt()
    return float(loss.detach()), float(norm)
