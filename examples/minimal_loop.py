"""DPH-F from top to bottom on one page: sample, grade, compare, rehearse, step.

    dph quickstart --task sql --methods grpo,dph_f --out sql
    python examples/minimal_loop.py sql

This is the algorithm of arXiv:2509.07430 in the package's pure functions, without options: no
checkpoints, no micro-batches, one model, one device. After the same number of steps its weights are
those of ``dph train`` up to float rounding (`tests/runs/train/test_minimal_loop.py`).
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph import Problem, load_pool, make_verifier
from dph._base.randomness import derived_seed, generator
from dph.loss.divergences import ForwardKL
from dph.loss.objectives import clipped_policy_loss, group_advantages, row_weights, weighted_sum
from dph.model.forward.logprobs import completion_scores
from dph.model.loading import load_model, load_tokenizer
from dph.model.prompts import encode_prompt, stop_token_ids
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import Position, next_problems, rehearsal_of_step
from dph.tasks.verifiers import Verifier

SEED, STEPS, PROBLEMS, SAMPLES, REHEARSED, MINIBATCHES = 0, 3, 32, 8, 32, 2
LEARNING_RATE, EPS, ETA = 2e-4, 1e-5, 0.01
CLIP_LOW, CLIP_HIGH, MAX_GRAD_NORM, MAX_TOKENS = 0.2, 0.28, 1.0, 32


class Answer(NamedTuple):
    """One completion of the policy, and how much better than its siblings it is."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    old_logprobs: tuple[float, ...]
    advantage: float


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    explored: Sequence[Problem],
    rehearsed: Sequence[RehearsalSample],
    verifier: Verifier,
) -> Iterator[float]:
    """Train ``model`` in place; yields the mean reward of every step.

    ``explored`` are the problems that the initial policy does not master. ``rehearsed`` are its own
    right answers to those that it does, with their log-probs: no reference model is needed.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), eps=EPS, weight_decay=0.0
    )
    position = Position()
    for step in range(1, STEPS + 1):
        problems, position = next_problems(explored, PROBLEMS, position, seed=SEED)
        groups, reward = roll_out(model, tokenizer, problems, verifier, step)
        order = generator(SEED, "minibatches", step).permutation(len(groups))
        groups = [groups[i] for i in order]
        stored = rehearsal_of_step(rehearsed, REHEARSED, step, seed=SEED)
        for part in range(MINIBATCHES):
            answers = [answer for group in groups[part::MINIBATCHES] for answer in group]
            explore = policy_loss(model, tokenizer, answers)
            rehearse = rehearsal_loss(model, tokenizer, stored[part::MINIBATCHES])
            (explore + ETA * rehearse).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            optimizer.zero_grad()
        yield reward


def roll_out(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problems: Sequence[Problem],
    verifier: Verifier,
    step: int,
) -> tuple[list[list[Answer]], float]:
    """Several answers to each problem, graded, each compared with those to the same problem."""
    prompts = [encode_prompt(tokenizer, problem.prompt) for problem in problems]
    drawn = TorchSampler(model, tokenizer).sample(
        [
            SampleRequest(problem_id=problem.problem_id, prompt_ids=prompt, samples=SAMPLES)
            for problem, prompt in zip(problems, prompts, strict=True)
        ],
        SamplingParameters(max_tokens=MAX_TOKENS, stop_token_ids=stop_token_ids(tokenizer, model)),
        seed=derived_seed(SEED, "rollout", step, 0),
    )
    asked = [problem for problem in problems for _ in range(SAMPLES)]
    answers = [answer for group in drawn for answer in group]
    verdicts = verifier.grade(asked, [answer.text for answer in answers])
    # An answer that was cut off is worth nothing.
    worth = [v.reward * a.finished for v, a in zip(verdicts, answers, strict=True)]
    rewards = torch.tensor(worth).view(len(problems), SAMPLES)
    advantages = group_advantages(rewards)
    groups = [
        [
            Answer(prompt, answer.token_ids, answer.logprobs, float(advantage))
            for answer, advantage in zip(group, row, strict=True)
        ]
        for prompt, group, row in zip(prompts, drawn, advantages, strict=True)
    ]
    return groups, float(rewards.mean())


def policy_loss(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answers: Sequence[Answer]
) -> Tensor:
    """The clipped policy gradient (DAPO's bounds), a mean over all tokens."""
    scores = completion_scores(
        model,
        [answer.prompt for answer in answers],
        [answer.tokens for answer in answers],
        temperature=1.0,
        pad_id=tokenizer.pad_token_id,
    )
    term = clipped_policy_loss(
        scores.logprobs,
        padded([answer.old_logprobs for answer in answers], scores.mask),
        torch.tensor([answer.advantage for answer in answers]),
        clip_low=CLIP_LOW,
        clip_high=CLIP_HIGH,
    )
    return weighted_sum(term.loss, scores.mask, token_mean(scores.mask))


def rehearsal_loss(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, stored: Sequence[RehearsalSample]
) -> Tensor:
    """Forward KL from the initial policy, on its own answers: f(pi / pi_ref) of every token."""
    scores = completion_scores(
        model,
        [sample.prompt_ids for sample in stored],
        [sample.completion_ids for sample in stored],
        temperature=1.0,
        pad_id=tokenizer.pad_token_id,
    )
    log_ratio = scores.logprobs - padded([sample.ref_logprobs for sample in stored], scores.mask)
    return weighted_sum(ForwardKL()(log_ratio), scores.mask, token_mean(scores.mask))


def padded(rows: Sequence[Sequence[float]], mask: Tensor) -> Tensor:
    """Rows of different lengths as one tensor, with 0 outside ``mask``."""
    values = torch.tensor([value for row in rows for value in row])
    return torch.zeros(mask.shape).masked_scatter(mask, values)


def token_mean(mask: Tensor) -> Tensor:
    """Weights of rows with which every token counts alike."""
    return row_weights(mask.sum(-1), reduction="token_mean")


def main(directory: Path) -> None:
    """Train on what `dph quickstart --task sql` left: base model, pool and databases."""
    torch.set_num_threads(1)
    model = load_model(directory / "model")
    tokenizer = load_tokenizer(directory / "model")
    pool = load_pool(directory / "pool")
    with make_verifier("sql", databases=directory / "databases", workers=2) as verifier:
        for reward in train(model, tokenizer, pool.exploration, pool.rehearsal, verifier):
            print(f"mean reward {reward:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
