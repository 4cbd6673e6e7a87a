"""The mixed loss: what reaches what, whatever the cut, and the right expected gradient."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.errors import DataError, SettingsError
from dph.loss.divergences import Alpha, ForwardKL, JensenShannon, ReverseKL
from dph.loss.objectives import LossBatch, mixed_loss, row_weights, weighted_sum
from short_objective import objective_of

TERMS = {
    "grpo": {},
    "rkl k2": {"kl_coefficient": 0.3, "kl_estimator": "k2"},
    "rkl k3": {"kl_coefficient": 0.3, "kl_estimator": "k3"},
    "rkl unbiased": {"kl_coefficient": 0.3, "kl_estimator": "unbiased"},
    "dph_f": {"divergence": ForwardKL(), "eta": 0.5},
    "dph_js": {"divergence": JensenShannon(), "eta": 0.5},
    "alpha": {"divergence": Alpha(0.3), "eta": 0.5},
    "reverse": {"divergence": ReverseKL(), "eta": 0.5},
    "all": {"divergence": ForwardKL("nll"), "eta": 0.5, "kl_coefficient": 0.3},
    "dph_js_definition": {"js_definition": True, "eta": 0.5},
}
every_objective = pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
NAN = math.nan


def make_batch(seed=0, rows=8, tokens=5, reduction="token_mean", dtype=torch.float64):
    """Random rows of both kinds, with NaN in every entry that must not be read."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    lengths = torch.randint(0, tokens + 1, (rows,), generator=generator)
    is_rehearsal = torch.rand(rows, generator=generator) < 0.4
    mask = torch.arange(tokens)[None] < lengths[:, None]
    logprobs = -normal(rows, tokens).abs()
    on_policy, on_rehearsal = mask & ~is_rehearsal[:, None], mask & is_rehearsal[:, None]
    old = logprobs + 0.3 * normal(rows, tokens)
    reference = logprobs + 0.8 * normal(rows, tokens)
    weights = torch.zeros(rows)
    for kind in (is_rehearsal, ~is_rehearsal):
        weights[kind] = row_weights(lengths[kind], reduction=reduction, max_tokens=tokens)
    batch = LossBatch(
        logprobs=torch.where(mask, logprobs, NAN),
        old_logprobs=torch.where(on_policy, old, NAN),
        ref_logprobs=torch.where(on_rehearsal, reference, NAN),
        mask=mask,
        advantages=torch.where(is_rehearsal, NAN, normal(rows)),
        source=is_rehearsal.long(),
        weights=weights,
    )
    return batch, torch.where(mask, reference, NAN)


def fitting(terms, seed=0, **shape):
    """A batch in which all that ``terms`` may not read is NaN."""
    batch, all_reference = make_batch(seed, **shape)
    if terms.get("kl_coefficient") or terms.get("js_definition"):
        batch = replace(batch, ref_logprobs=all_reference)
    return batch


def rows_of(batch, rows):
    return LossBatch(**{f.name: getattr(batch, f.name)[rows] for f in fields(batch)})


def loss_and_gradient(batch, terms):
    logprobs = batch.logprobs.detach().clone().requires_grad_()
    loss = mixed_loss(replace(batch, logprobs=logprobs), objective_of(**terms))
    (gradient,) = torch.autograd.grad(loss.total, logprobs)
    return loss, gradient


def scalars(loss):
    terms = (*loss.penalties.values(), *loss.anchors.values())
    values = (loss.total, loss.policy, loss.clipped_low, loss.clipped_high, *terms)
    return torch.stack([value.detach().double() for value in values])


@every_objective
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_value_and_gradient_are_the_same_however_the_mini_batch_is_cut(terms, data):
    rows = data.draw(st.integers(1, 9))
    reduction = data.draw(st.sampled_from(["token_mean", "sequence_mean", "fixed_length"]))
    batch = fitting(terms, seed=data.draw(st.integers(0, 99)), rows=rows, reduction=reduction)
    piece = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))
    whole, whole_gradient = loss_and_gradient(batch, terms)
    total, gradient = torch.zeros_like(scalars(whole)), torch.zeros_like(whole_gradient)
    for i in piece.unique():
        loss, gradient[piece == i] = loss_and_gradient(rows_of(batch, piece == i), terms)
        total += scalars(loss)
    # Sums of at most 45 terms of size about 1; the clip shares are float32.
    torch.testing.assert_close(total, scalars(whole), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(gradient, whole_gradient, rtol=1e-12, atol=1e-15)


@every_objective
@pytest.mark.parametrize("seed", range(5))
def test_entries_that_are_not_needed_reach_neither_value_nor_gradient(terms, seed):
    batch = fitting(terms, seed=seed)
    # Anomaly mode fails on a NaN anywhere in the backward pass, also one that is masked later.
    with torch.autograd.set_detect_anomaly(True):
        loss, gradient = loss_and_gradient(batch, terms)
    assert torch.isfinite(scalars(loss)).all()
    assert torch.isfinite(gradient).all()
    assert (gradient[~batch.mask] == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_eta_zero_is_the_policy_loss_alone_bit_by_bit(seed):
    batch, _ = make_batch(seed)
    alone, gradient = loss_and_gradient(batch, {})
    with_zero, zero_gradient = loss_and_gradient(batch, {"divergence": ForwardKL(), "eta": 0.0})
    assert with_zero.total.equal(alone.policy)
    assert alone.total.equal(alone.policy)
    assert zero_gradient.equal(gradient)
    assert with_zero.anchors["rehearsal"] > 0  # still reported


def test_rehearsal_that_is_infinite_does_not_touch_a_total_with_eta_zero():
    batch, reference = make_batch(1)
    batch = replace(batch, ref_logprobs=torch.full_like(reference, -math.inf))
    loss, gradient = loss_and_gradient(batch, {"divergence": JensenShannon(), "eta": 0.0})
    assert loss.anchors["rehearsal"].item() == math.inf
    assert torch.isfinite(loss.total)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("terms", [TERMS["dph_f"], TERMS["dph_js"], TERMS["all"]])
def test_policy_rows_and_rehearsal_rows_do_not_touch_each_other(terms):
    batch = fitting(terms, seed=3)
    loss, gradient = loss_and_gradient(batch, terms)
    for kind in (0, 1):
        own = batch.source == kind
        logprobs = torch.where(own[:, None], batch.logprobs - 1, batch.logprobs)
        changed, changed_gradient = loss_and_gradient(replace(batch, logprobs=logprobs), terms)
        assert changed.policy.equal(loss.policy) is (kind == 1)
        assert changed.anchors["rehearsal"].equal(loss.anchors["rehearsal"]) is (kind == 0)
        assert changed_gradient[~own].equal(gradient[~own])


def two_rows(**changes):
    """One policy row of two tokens, one rehearsal row of one token; arithmetic by hand."""
    batch = LossBatch(
        logprobs=torch.tensor([[math.log(0.5), math.log(0.6)], [math.log(0.2), NAN]]).double(),
        old_logprobs=torch.tensor([[math.log(0.5), math.log(0.3)], [NAN, NAN]]).double(),
        ref_logprobs=torch.tensor([[math.log(0.25), math.log(0.6)], [math.log(0.4), NAN]]).double(),
        mask=torch.tensor([[True, True], [True, False]]),
        advantages=torch.tensor([1.0, NAN]).double(),
        source=torch.tensor([0, 1]),
        weights=torch.tensor([0.5, 1.0]),
    )
    return replace(batch, **changes)


def test_every_term_and_both_halves_of_js_are_the_arithmetic_of_their_definitions():
    # Ratios 1 and 2 (clipped to 1.28): policy = -(1 + 1.28) / 2. x = log 2 and 0 on policy rows:
    # k2 = (log^2 2 / 2) / 2. Rehearsal u = 1/2: k3 = 1/2 - 1 + log 2.
    loss = mixed_loss(
        two_rows(),
        objective_of(kl_coefficient=0.1, kl_estimator="k2", divergence=ForwardKL(), eta=0.2),
    )
    policy, penalty, rehearse = -1.14, math.log(2) ** 2 / 4, math.log(2) - 0.5
    assert loss.policy.item() == pytest.approx(policy, rel=1e-6)
    assert loss.penalties["kl"].item() == pytest.approx(penalty, rel=1e-6)
    assert loss.anchors["rehearsal"].item() == pytest.approx(rehearse, rel=1e-6)
    assert loss.total.item() == pytest.approx(policy + 0.1 * penalty + 0.2 * rehearse, rel=1e-6)
    # Reference half at u = 1/2, k3 of M / pi_ref = 3/4: -1/4 - log(3/4). Policy half with r = 1, 2
    # and u = 2, 1: log(4/3) and 2 log 1 - 1/2, over 2 tokens.
    loss = mixed_loss(two_rows(), objective_of(js_definition=True, eta=1.0))
    expected = (-0.25 + math.log(4 / 3)) + (math.log(4 / 3) - 0.5) / 2
    assert loss.anchors["rehearsal"].item() == pytest.approx(expected, rel=1e-6)


def test_clip_shares_are_fractions_of_policy_tokens_on_the_right_side():
    high = mixed_loss(two_rows(), objective_of())
    assert (high.clipped_low.item(), high.clipped_high.item()) == (0.0, 0.5)
    shrunk = torch.tensor([[math.log(0.6), math.log(0.9)], [NAN, NAN]]).double()
    low = mixed_loss(
        two_rows(old_logprobs=shrunk, advantages=torch.tensor([-1.0, NAN]).double()), objective_of()
    )
    # Ratios 0.83 and 0.67: only the second is below 0.8.
    assert (low.clipped_low.item(), low.clipped_high.item()) == (0.5, 0.0)


def test_a_batch_of_one_kind_or_of_nothing_has_a_total_that_can_be_differentiated():
    batch = fitting(TERMS["dph_f"], seed=2)
    for rows in (batch.source == 1, batch.source == 0, torch.zeros(8, dtype=torch.bool)):
        loss, gradient = loss_and_gradient(rows_of(batch, rows), TERMS["dph_f"])
        assert torch.isfinite(loss.total)
        assert gradient.shape[0] == int(rows.sum())


@every_objective
def test_bfloat16_log_probs_are_computed_in_float32(terms):
    batch = fitting(terms, seed=4, dtype=torch.float32)
    low = {
        name: getattr(batch, name).bfloat16()
        for name in ("logprobs", "old_logprobs", "ref_logprobs")
    }
    high = {name: value.float() for name, value in low.items()}
    loss, gradient = loss_and_gradient(replace(batch, **low), terms)
    expected, expected_gradient = loss_and_gradient(replace(batch, **high), terms)
    assert loss.total.dtype == torch.float32
    assert loss.total.equal(expected.total)
    # The gradient is rounded to bfloat16 where it enters each of the terms.
    torch.testing.assert_close(
        gradient.float(), expected_gradient, rtol=3 * torch.finfo(torch.bfloat16).eps, atol=1e-3
    )


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"eta": -0.1, "divergence": ForwardKL()}, "anchor must be finite and at least 0, got -0"),
        ({"eta": NAN, "divergence": ForwardKL()}, "anchor must be finite and at least 0, got nan"),
        ({"kl_coefficient": math.inf}, "a penalty must be finite and at least 0, got inf"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms, message):
    with pytest.raises(SettingsError, match=message):
        objective_of(**terms)


LENGTHS = torch.tensor([1, 3, 2])
VALUES = torch.tensor([[6.0, 9.0, 9.0], [1.0, 2.0, 3.0], [4.0, 8.0, 9.0]])
MASK = torch.arange(3)[None] < LENGTHS[:, None]


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("token_mean", (6 + 6 + 12) / 6),
        ("sequence_mean", (6 / 1 + 6 / 3 + 12 / 2) / 3),
        ("fixed_length", (6 + 6 + 12) / (3 * 5)),
    ],
)
def test_each_reduction_is_the_mean_that_its_name_says(reduction, expected):
    weights = row_weights(LENGTHS, reduction=reduction, max_tokens=5)
    assert weighted_sum(VALUES, MASK, weights).item() == pytest.approx(expected, rel=1e-6)


every_reduction = pytest.mark.parametrize(
    "reduction", ["token_mean", "sequence_mean", "fixed_length"]
)


@every_reduction
@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.data())
def test_rows_without_tokens_change_nothing_wherever_they_stand(reduction, lengths, data):
    order = data.draw(st.permutations([*lengths, 0, 0]))
    kept = [n for n in order if n > 0]
    with_empty = row_weights(
        torch.tensor(order, dtype=torch.long), reduction=reduction, max_tokens=9
    )
    without = row_weights(torch.tensor(kept, dtype=torch.long), reduction=reduction, max_tokens=9)
    assert [w for w, n in zip(with_empty.tolist(), order, strict=True) if n] == without.tolist()
    assert all(w == 0.0 for w, n in zip(with_empty.tolist(), order, strict=True) if not n)


def test_nothing_outside_the_mask_reaches_the_sum_or_the_gradient():
    values = torch.tensor([[1.0, math.nan], [math.inf, math.nan]], requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    total = weighted_sum(values, mask, torch.tensor([0.5, 2.0]))
    total.backward()
    assert total.item() == 0.5
    assert values.grad.tolist() == [[0.5, 0.0], [0.0, 0.0]]


@pytest.mark.usefixtures("no_type_checks")
def test_bad_input_is_refused():
    with pytest.raises(SettingsError, match="needs max_tokens >= 1, got None"):
        row_weights(LENGTHS, reduction="fixed_length")
    with pytest.raises(DataError, match="3 tokens, above max_tokens=2"):
        row_weights(LENGTHS, reduction="fixed_length", max_tokens=2)
    with pytest.raises(DataError, match="at least 0, got -1"):
        row_weights(torch.tensor([-1, 2]), reduction="token_mean")
    with pytest.raises(SettingsError, match="token_mean, sequence_mean, fixed_length, got 'mean'"):
        row_weights(LENGTHS, reduction="mean")
