"""What the tests of the real vLLM ask for, and what they hold its log-probs to."""

import copy
from itertools import chain

import torch

from dph.model.sampler.base import SampleRequest, SamplingParameters
from scored_completions import score_completions
from tiny_models import VOCABULARY

PLAIN = SamplingParameters(max_tokens=6, stop_token_ids=(5, 6, 7, 8))
PROMPTS = {"a": (3, 4), "b": (9, 10, 11), "c": (3, 4), "d": tuple(range(3, 43))}


def requests(samples=4, first_index=0):
    return [
        SampleRequest(problem_id=p, prompt_ids=ids, samples=samples, first_index=first_index)
        for p, ids in PROMPTS.items()
    ]


def tokens_of(results):
    return [[c.token_ids for c in drawn] for drawn in results]


def scores(model, results, temperature=1.0, dtype="float32"):
    """The training forward's log-probs of all completions, row by row."""
    return score_completions(
        model,
        [PROMPTS[c.problem_id] for c in chain(*results)],
        [c.token_ids for c in chain(*results)],
        temperature=temperature,
        pad_id=0,
        token_budget=4096,
        dtype=dtype,
    )


def distances(model, results, *, dtype, temperature=1.0):
    """How far vLLM and the training forward are from float64: root mean squares, nats a token."""
    exact = flat(scores(copy.deepcopy(model).double(), results, temperature))
    trained = flat(scores(model, results, temperature, dtype))
    drawn = flat(c.logprobs for c in chain(*results))
    return tuple(float((one - exact).square().mean().sqrt()) for one in (drawn, trained))


def flat(rows):
    return torch.tensor(list(chain(*rows)), dtype=torch.float64)


def agrees_with_the_softmax(model, drawn, parameters):
    """Whether first tokens of PROMPTS["a"] come as often as their probabilities say.

    Chi-square with d degrees of freedom has mean d and deviation sqrt(2 d); six are allowed.
    """
    full = first_logprobs(model, parameters.temperature)
    ordered, order = full.exp().sort(descending=True)
    inside = order[ordered.cumsum(-1) - ordered < parameters.top_p]
    expected = len(drawn) * full[inside].exp() / full[inside].exp().sum()
    seen = torch.bincount(torch.tensor([c.token_ids[0] for c in drawn]), minlength=VOCABULARY)
    assert int(seen[inside].sum()) == len(drawn)
    freedom = len(inside) - 1
    found = float(((seen[inside] - expected) ** 2 / expected).sum())
    return found < freedom + 6 * (2 * freedom) ** 0.5


@torch.no_grad()
def first_logprobs(model, temperature):
    """Of the token after PROMPTS["a"], over the full vocabulary."""
    logits = model(torch.tensor([PROMPTS["a"]])).logits[0, -1].double()
    return (logits / temperature).log_softmax(-1)
