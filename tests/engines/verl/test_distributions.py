"""The divergence at verl's logits: where positions lie among all rows, and what they are worth."""

import pytest
import torch
from tensordict import TensorDict

from dph.engines.verl.distributions import (
    STORED,
    TARGETS,
    VALUES,
    answer_rows,
    jagged,
    no_targets,
    target_rows,
    values_at_logits,
)
from dph.loss.divergences.distribution_kl import DistributionKL
from dph.loss.objectives import Anchor
from dph.runs.presample.tables import DistributionSample
from tiny_models import VOCABULARY

HALF, QUARTER, NOTHING = (float(torch.tensor(p).log()) for p in (0.5, 0.25, 0.0))


def sample(prompt, answer, token_ids, logprobs, tails):
    return DistributionSample(
        problem_id="a",
        sample_index=0,
        prompt_ids=prompt,
        completion_ids=answer,
        ref_logprobs=(0.0,) * len(answer),
        token_ids=token_ids,
        logprobs=logprobs,
        log_tails=tails,
    )


SHORT = sample((5, 6), (7,), ((7, 8),), ((HALF, HALF),), (NOTHING,))
LONG = sample((5,), (7, 9), ((7, 8), (9,)), ((HALF, QUARTER), (HALF,)), (QUARTER, HALF))


def batch_of(stored):
    """One row of the policy, four tokens long, before the stored ones."""
    rows = answer_rows(
        [(3, 4), *(s.prompt_ids for s in stored)], [(3, 4), *(s.completion_ids for s in stored)]
    )
    mine, theirs = target_rows(stored), no_targets(1)
    for name in TARGETS:
        rows[name] = jagged([*theirs[name].unbind(), *mine[name].unbind()])
    rows[STORED] = torch.tensor([0] + [1] * len(stored))
    return rows


def test_values_stand_at_the_logits_before_each_answer_token_and_nowhere_else():
    batch = batch_of([SHORT, LONG])
    logits = torch.zeros(1, 4 + 3 + 3, VOCABULARY)
    found = values_at_logits(logits, batch, [Anchor(divergence=DistributionKL(), weight=0.15)])[
        VALUES
    ]
    # pi is even: 1/48 a token. SHORT is predicted at 4 + 1, LONG at 7 and 8.
    even = -torch.tensor(float(VOCABULARY)).log()
    expected = torch.zeros(1, 10)
    expected[0, 5] = HALF - even
    expected[0, 7] = 0.5 * (HALF - even) + 0.25 * (QUARTER - even)
    expected[0, 7] += 0.25 * (QUARTER - torch.tensor(46 / 48).log())
    expected[0, 8] = 0.5 * (HALF - even) + 0.5 * (HALF - torch.tensor(47 / 48).log())
    torch.testing.assert_close(found, expected)


def test_the_gradient_is_pi_minus_q_at_stored_positions_and_0_elsewhere():
    batch = batch_of([SHORT])
    logits = torch.randn(1, 7, VOCABULARY, generator=torch.Generator().manual_seed(0))
    logits.requires_grad_()
    found = values_at_logits(logits, batch, [Anchor(divergence=DistributionKL(), weight=0.15)])[
        VALUES
    ]
    found.sum().backward()
    expected = torch.zeros(1, 7, VOCABULARY)
    expected[0, 5] = logits.detach()[0, 5].softmax(-1)
    expected[0, 5, [7, 8]] -= 0.5  # everything else was stored as impossible
    assert logits.grad == pytest.approx(expected, abs=1e-6)


def test_rows_of_other_anchors_and_batches_without_stored_rows_have_no_values():
    logits = torch.zeros(1, 4 + 3, VOCABULARY)
    batch = batch_of([SHORT])
    batch[STORED] = torch.tensor([0, 2])
    assert not values_at_logits(logits, batch, [Anchor(divergence=DistributionKL(), weight=0.15)])[
        VALUES
    ].any()
    batch = TensorDict({**batch, STORED: torch.tensor([0, 0])}, batch_size=2)
    assert not values_at_logits(logits, batch, [Anchor(divergence=DistributionKL(), weight=0.15)])[
        VALUES
    ].any()
