from itertools import product
from math import exp, log

import pytest
import torch

from dph.loss.objectives import (
    POLICY,
    FlowBalance,
    GroupSamples,
    LossBatch,
    mixed_loss,
    row_weights,
)
from dph.recipe import METHODS, ObjectiveSettings
from dph.runs.objective import make_objective
from enumerated_texts import (
    BEGINNINGS,
    INITIAL,
    NOW,
    OLD,
    REWARDS,
    TEXTS,
    TOKENS,
    flowrl_by_hand,
    lengths,
    text_logprobs,
    token_logprobs,
)
from new_samples import policy_tokens

PAIRS = list(product(range(len(TEXTS)), repeat=2))
BETA, LOW, HIGH = 1.5, 0.2, 0.3


def table(logits, *, learns=False):
    return torch.tensor(logits, dtype=torch.float64, requires_grad=learns)


def flowrl():
    """The method as a recipe names it, with another strength and other bounds."""
    chosen = METHODS["flowrl"]["objective"]
    settings = ObjectiveSettings(
        **{
            **chosen,
            "advantage": {**chosen["advantage"], "beta": BETA},
            "surrogate": {**chosen["surrogate"], "clip_low": LOW, "clip_high": HIGH},
        }
    )
    return make_objective(settings)


def loss_of(objective, group, now, old):
    group, initial = torch.as_tensor(group), text_logprobs(table(INITIAL))
    samples = GroupSamples(
        logprobs=text_logprobs(old)[group][None],
        lengths=lengths()[group][None],
        ref_logprobs=initial[group][None],
    )
    rewards = torch.tensor(REWARDS, dtype=torch.float64)[group][None]
    logprobs, mask = token_logprobs(now)
    batch = LossBatch(
        logprobs=logprobs[group],
        old_logprobs=token_logprobs(old)[0][group],
        ref_logprobs=torch.full_like(logprobs[group], torch.nan),
        mask=mask[group],
        advantages=objective.advantage(rewards, samples)[0],
        source=torch.full((len(group),), POLICY),
        weights=row_weights(lengths()[group], reduction="sequence_mean").double(),
    )
    return mixed_loss(batch, objective)


def test_the_method_is_flowrls_loss_and_gradient_in_every_group_of_two_and_in_threes():
    objective, bounded = flowrl(), 0
    for group in [*PAIRS, *list(product(range(len(TEXTS)), repeat=3))[::7]]:
        now = table(NOW, learns=True)
        loss = loss_of(objective, group, now, table(OLD))
        exact, by_hand = flowrl_by_hand(group, beta=BETA, clip_low=LOW, clip_high=HIGH)
        assert loss.total.item() == pytest.approx(exact, rel=1e-6, abs=1e-9)
        (gradient,) = torch.autograd.grad(loss.total, now)
        places = product(range(len(BEGINNINGS)), range(len(TOKENS)))
        expected = torch.tensor([by_hand.get(place, 0.0) for place in places])
        assert torch.allclose(gradient.flatten().float(), expected, rtol=1e-5, atol=1e-7)
        bounded += bool(loss.clipped_low > 0) + bool(loss.clipped_high > 0)
    assert bounded > len(PAIRS) / 2  # the bounds of the weight are tested, not only stood beside


@pytest.mark.parametrize(
    ("logprobs", "old", "high", "weight", "delta", "clipped"),
    [
        # Log-ratios 0.3 + 0.1 = 0.4 of two tokens: delta = 0.2 - A, the weight min(exp(0.4), 1.3).
        ([-1.0, -2.0], [-1.3, -2.1], 0.3, 1.3, -0.3, (False, True)),
        ([-1.0, -2.0], [-1.3, -2.1], 0.6, exp(0.4), -0.3, (False, False)),
        # exp(-0.3) = 0.74 is held at 0.8
        ([-1.2, -2.1], [-1.0, -2.0], 0.3, 0.8, -0.65, (True, False)),
    ],
)
def test_the_loss_of_a_row_by_hand(logprobs, old, high, weight, delta, clipped):
    term = FlowBalance(0.2, high)(policy_tokens([logprobs], [0.5], old=[old]))
    assert term.loss[0].tolist() == pytest.approx([weight * delta**2] * 2, rel=1e-6)
    assert term.clipped_low.tolist() == [[clipped[0]] * 2]
    assert term.clipped_high.tolist() == [[clipped[1]] * 2]


def test_weight_and_old_policy_have_no_gradient_and_the_weights_bounds_cut_none():
    # d/dl of w (l / 2 - A)^2 with w held: 2 w (l / 2 - A) / 2, on both tokens.
    logprobs = torch.tensor([[-1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-1.3, -2.1]], dtype=torch.float64, requires_grad=True)
    tokens = policy_tokens(logprobs, [0.5], old=old)
    for high, weight in ((0.3, 1.3), (0.6, exp(0.4))):
        loss = FlowBalance(0.2, high)(tokens).loss.mean()
        gradient, of_old = torch.autograd.grad(loss, [logprobs, old], allow_unused=True)
        assert gradient[0].tolist() == pytest.approx([-0.3 * weight] * 2, rel=1e-6)
        assert of_old is None


def test_an_answer_that_became_much_likelier_stays_finite_and_one_without_tokens_is_no_part():
    logprobs = torch.tensor([[-1.0], [-2000.0]], requires_grad=True)
    tokens = policy_tokens(logprobs, [1.0, 1.0], old=[[-2000.0], [-1.0]])
    loss = FlowBalance()(tokens).loss
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert torch.isfinite(loss).all()
    assert torch.isfinite(gradient).all()
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    logprobs = torch.zeros(1, 2, requires_grad=True)
    tokens = policy_tokens(logprobs, [0.0], old=[[0.0, 0.0]], mask=nothing)
    loss = FlowBalance()(tokens).loss
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert loss.tolist() == [[0.0, 0.0]]
    assert gradient.tolist() == [[0.0, 0.0]]


def test_samples_without_an_advantage_stay_because_the_policy_may_have_moved():
    assert flowrl().needs_all_samples
    tokens = policy_tokens([[log(0.5)]], [0.0], old=[[log(0.25)]])
    assert FlowBalance()(tokens).loss.item() == pytest.approx(1.2 * log(2) ** 2, rel=1e-6)
