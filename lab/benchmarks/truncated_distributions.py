"""What storing k tokens and the mass of all others costs the gradient of `distribution_kl`.

    python lab/benchmarks/truncated_distributions.py BASE PROBLEMS [--policy MODEL] [--prompts 32]

BASE is the directory of the initial model, PROBLEMS a file of problems (a world's train.jsonl),
MODEL a later checkpoint of it (without one, BASE with noise on its weights). Four answers a prompt
are drawn from BASE. For each k a row gives the bytes a stored token (float16 log-probs, four bytes
a token id), the value, and how far the whole gradient (all parameters of the policy) is from the
one with every token stored: relative distance and cosine. The last two columns are those of the
sum over the k tokens alone, which `distribution_kl` does not offer.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.loss.divergences import DistributionKL
from dph.model.forward.logprobs import RowStatistic, completion_scores
from dph.model.forward.over_vocabulary import bucket_logprobs, next_tokens
from dph.model.loading import load_model, load_tokenizer
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.tasks.problems import load_problems

KEPT = (1, 2, 4, 8, 16, 32)
ANSWERS, MAX_TOKENS, NOISE = 4, 64, 0.05


@dataclass(frozen=True, slots=True)
class Stored:
    """Answers of the base model and its whole next-token distributions along them."""

    prompts: list[tuple[int, ...]]
    answers: list[tuple[int, ...]]
    target: Tensor


def main() -> None:
    """Draw, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("problems", type=Path)
    parser.add_argument("--policy", type=Path)
    parser.add_argument("--prompts", type=int, default=32)
    arguments = parser.parse_args()
    base = load_model(arguments.base)
    stored = draw(base, arguments.base, arguments.problems, arguments.prompts)
    policy = load_model(arguments.policy) if arguments.policy else moved(load_model(arguments.base))
    print_table(policy, stored)


def draw(base: PreTrainedModel, path: Path, problems: Path, count: int) -> Stored:
    """Answers to some of the problems, drawn with seed 0."""
    tokenizer = load_tokenizer(path)
    chosen = Random("truncated distributions").sample(load_problems(problems), count)
    requests = [
        SampleRequest(
            problem_id=p.problem_id,
            prompt_ids=tuple(tokenizer.encode(str(p.prompt))),
            samples=ANSWERS,
        )
        for p in chosen
    ]
    parameters = SamplingParameters(
        max_tokens=MAX_TOKENS, stop_token_ids=(int(tokenizer.eos_token_id),)
    )
    drawn = TorchSampler(base, tokenizer).sample(requests, parameters, seed=0)
    prompts = [request.prompt_ids for request in requests for _ in range(ANSWERS)]
    answers = [completion.token_ids for group in drawn for completion in group]
    found = next_tokens(base, prompts, answers, temperature=1.0, pad_id=0)
    positions = sum(map(len, answers))
    return Stored(prompts, answers, found.logprobs(slice(0, positions)))


def moved(model: PreTrainedModel) -> PreTrainedModel:
    """The model with noise of ``NOISE`` times the size of each of its weight matrices."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += NOISE * parameter.std() * torch.randn_like(parameter)
    return model


def print_table(policy: PreTrainedModel, stored: Stored) -> None:
    """One row for each number of tokens kept."""
    vocabulary = stored.target.shape[1]
    exact_value, exact = gradient(policy, stored, vocabulary, rest=True)
    print(f"{len(stored.target)} positions, {vocabulary} tokens, KL {exact_value:.4f} nats\n")
    print("|   k | bytes | KL | distance | cosine | without rest: distance | cosine |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for kept in (*(k for k in KEPT if k < vocabulary), vocabulary):
        value, found = gradient(policy, stored, kept, rest=True)
        _, alone = gradient(policy, stored, kept, rest=False)
        both = " | ".join(f"{x:.4f}" for each in (found, alone) for x in compared(each, exact))
        print(f"| {kept} | {6 * kept + 2} | {value:.4f} | {both} |")


def gradient(
    policy: PreTrainedModel, stored: Stored, kept: int, *, rest: bool
) -> tuple[float, Tensor]:
    """Mean value over the positions, and its gradient, with the ``kept`` likeliest tokens."""
    ids = stored.target.topk(kept, dim=-1).indices
    scores = completion_scores(
        policy,
        stored.prompts,
        stored.answers,
        temperature=1.0,
        pad_id=0,
        statistics=[
            RowStatistic(
                torch.ones(len(stored.answers), dtype=torch.bool),
                lambda table, positions: bucket_logprobs(table, ids[positions]),
            )
        ],
    )
    targets = bucket_logprobs(stored.target, ids)
    if not rest:
        targets[:, -1] = -torch.inf
    value = DistributionKL().over_buckets(targets, scores.statistics[0]).mean()
    policy.zero_grad()
    torch.autograd.backward(value)
    return float(value.detach()), flat([p.grad for p in policy.parameters()])


def flat(gradients: Sequence[Tensor | None]) -> Tensor:
    """All of them in one vector."""
    return torch.cat([g.flatten() for g in gradients if g is not None])


def compared(found: Tensor, exact: Tensor) -> tuple[float, float]:
    """Relative distance and cosine."""
    found, exact = found.double(), exact.double()  # a cosine of 1.0001 is rounding
    distance = float((found - exact).norm() / exact.norm())
    return distance, float(torch.cosine_similarity(found, exact, dim=0))


if __name__ == "__main__":
    main()
