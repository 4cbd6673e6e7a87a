"""Train an agent without run directory, pool or report: ``python agent_loop.py MODEL``.

``MODEL`` is the directory of a model whose chat template shows tools. docs/guides/agents.md has the
same as a recipe, with everything that this file leaves out.
"""

import sys
from pathlib import Path

import torch

from dph import Problem
from dph.model.loading import load_model, load_tokenizer
from dph.model.prompts import TurnEncoder, stop_token_ids
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import EpisodeSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective
from dph.runs.train.collect import Group
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import Minibatch
from dph.runs.train.updating import TrainingForward, update
from dph.tasks.environments import Environment


class Counter:
    """A counter that the policy must bring to a target."""

    def reset(self, target: int, **columns: object) -> None:
        """Begin at 0."""
        del columns
        self.target, self.value = target, 0

    def get_reward(self) -> float:
        """Return 1 if the counter is at its target."""
        return float(self.value == self.target)

    def increment(self, step: int) -> int:
        """Add to the counter.

        Args:
            step: Number to add.
        """
        self.value += step
        return self.value


def train(path: Path, *, steps: int = 3) -> None:
    """Draw eight trajectories for each of four problems, and take a step, this many times."""
    model, tokenizer = load_model(path), load_tokenizer(path)
    problems = [
        Problem(problem_id=f"to {n}", prompt=f"Count to {n}.", answer={"target": n})
        for n in range(1, 5)
    ]
    settings, optimizer = ObjectiveSettings(), torch.optim.AdamW(model.parameters(), lr=1e-5)
    objective, no_others = make_objective(settings), Scorers(old=None, reference=None)
    forward = TrainingForward(
        model=model,
        pad_id=tokenizer.pad_token_id,
        temperature=1.0,
        dtype="float32",
        token_budget=8192,
        max_tokens=512,
    )
    with Environment("agent_loop:Counter", directories=[Path(__file__).parent]) as environment:
        draw = EpisodeSampler(
            sampler=TorchSampler(model, tokenizer),
            environment=environment,
            encoder=TurnEncoder(tokenizer, environment.tools, chat=True),
            parameters=SamplingParameters(
                max_tokens=64, stop_token_ids=stop_token_ids(tokenizer, model)
            ),
            tokens=512,
        )
        for step in range(1, steps + 1):
            rollout = draw(problems, samples=8, seed=step)
            groups = [
                Group(prompt_ids=p, completions=g)
                for p, g in zip(rollout.prompts, rollout.groups, strict=True)
            ]
            rows = policy_rows(groups, forward, no_others, objective=objective, settings=settings)
            report = update(
                Minibatch(groups=rows.groups, stored={}),
                forward,
                optimizer,
                objective=objective,
                max_grad_norm=1,
            )
            rewards = [graded.verdict.reward for group in rollout.groups for graded in group]
            mean = sum(rewards) / len(rewards)
            print(f"step {step}: reward {mean:.2f}, loss {report.policy:.4f}")


if __name__ == "__main__":
    train(Path(sys.argv[1]))
