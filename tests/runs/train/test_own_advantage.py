"""An advantage that is not in the package, named in a recipe by its import path alone."""

import pytest
import torch

from dph.loss.objectives import make_objective
from dph.recipe import resolve_recipe
from dph.records import Completion, GradedCompletion, Outcome, Verdict
from dph.runs.train.collect import Group
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import split_minibatches
from dph.runs.train.updating import TrainingForward, update
from own_advantage import RELATIVE

ANSWERS = [((5, 6, 1), 1.0), ((7, 1), 0.0), ((8, 8, 1), 0.0), ((9, 1), None)]
BY_HAND = [2, -1, -1, 0]
"""(r - mean) / mean: of 1, 0 and 0 the mean is 1/3; None could not be graded."""


class Frozen(torch.optim.SGD):
    """Keeps the gradient of the step instead of taking it."""

    def step(self):
        self.kept = [p.grad.clone() for g in self.param_groups for p in g["params"]]


@pytest.fixture
def forward(make_model):
    return TrainingForward(
        model=make_model(),
        pad_id=0,
        temperature=1.0,
        dtype="float32",
        token_budget=99,
        max_tokens=4,
    )


@pytest.fixture
def settings():
    """The section of a recipe."""
    recipe = resolve_recipe(
        {
            "method": "grpo",
            "model": {"path": "m"},
            "data": {"train": "t.jsonl"},
            "objective": {"advantage": {"kind": RELATIVE}},
        }
    )
    return recipe.objective


def group():
    completions = [
        GradedCompletion(
            completion=Completion(
                problem_id="p",
                sample_index=index,
                token_ids=ids,
                logprobs=(-1.0,) * len(ids),
                finished=True,
                text="",
            ),
            verdict=Verdict(
                outcome=Outcome.CRASHED if reward is None else Outcome.CORRECT,
                reward=reward or 0.0,
            ),
        )
        for index, (ids, reward) in enumerate(ANSWERS)
    ]
    return Group(prompt_ids=(3, 4), completions=tuple(completions))


def logprobs(model, row):
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
    table = model(input_ids=ids).logits.log_softmax(-1)[0]
    where = range(len(row.prompt_ids) - 1, ids.shape[1] - 1)
    return torch.stack([table[t, ids[0, t + 1]] for t in where])


def test_the_gradient_of_a_step_is_that_of_the_formula(settings, forward):
    objective = make_objective(settings)
    scorers = Scorers(old=forward.model, reference=None)
    rows = policy_rows([group()], forward, scorers, objective=objective, settings=settings).groups
    assert [row.advantage for row in rows[0]] == pytest.approx(BY_HAND, abs=1e-6)
    (minibatch,) = split_minibatches(rows, {}, 1)
    optimizer = Frozen(forward.model.parameters(), lr=1.0)
    update(minibatch, forward, optimizer, objective=objective, max_grad_norm=1e9)
    found = torch.cat([g.flatten() for g in optimizer.kept])

    forward.model.zero_grad(set_to_none=True)
    graded = list(zip(rows[0], BY_HAND, strict=True))[:3]
    tokens = sum(len(row.completion_ids) for row, _ in graded)  # the ungraded one has no weight
    loss = sum(-a * logprobs(forward.model, row).sum() / tokens for row, a in graded)
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in forward.model.parameters()])
    assert torch.allclose(found, expected, atol=1e-6, rtol=1e-4)
    assert found.norm() > 1e-3
