from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from counting_device import CountingDevice
from dph.model.forward import logprobs as forward_logprobs
from dph.model.forward import over_vocabulary, sharing
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective
from dph.runs.train.rows import Minibatch, PolicyRow
from dph.runs.train.updating import update
from loop_parts import Frozen, score, stored_answer, training_forward

ANSWERS = ((3, 4, 5, 6, 1), (3, 4, 7, 1), (3, 5, 5, 1), (3, 5, 8, 8, 8, 1))
STORED = ((3, 8, 6, 1), (3, 7, 4, 4, 1), (3, 4, 5, 5, 6, 1))
ADVANTAGES = (1.0, -1.0, 0.5, 0.0)
KEPT = {"divergence": "forward_kl", "weight": 0.15}


def objective_of(**settings):
    return make_objective(ObjectiveSettings(**settings))


def batch_of(model, reference, *, shift=0.0):
    """Four new answers in two groups and three stored ones; ``shift`` moves the old log-probs."""

    def row(ids, advantage):
        old = score(model, ids[:2], ids[2:])
        return PolicyRow(
            prompt_ids=ids[:2],
            completion_ids=ids[2:],
            advantage=advantage,
            old_logprobs=tuple(x - shift * (-1) ** i for i, x in enumerate(old)),
        )

    def kept(ids):
        return stored_answer(ids[2:], score(reference, ids[:2], ids[2:]), prompt=ids[:2])

    rows = [row(*each) for each in zip(ANSWERS, ADVANTAGES, strict=True)]
    return Minibatch(
        groups=(tuple(rows[:2]), tuple(rows[2:])), stored={"kept": tuple(map(kept, STORED))}
    )


def gradient(model, minibatch, objective, *, reference=None, budget=999, sharing="auto", **more):
    model.zero_grad(set_to_none=True)
    optimizer = Frozen(model.parameters(), lr=1.0)
    forward = training_forward(model, token_budget=budget, sharing=sharing, reference=reference)
    report = update(minibatch, forward, optimizer, objective=objective, max_grad_norm=1e9, **more)
    return optimizer.gradient, report


def tables(model, ids, prompt=2):
    """Log-probs of the whole vocabulary at each token of an answer, by the model's own forward."""
    table = model(input_ids=torch.tensor([list(ids)])).logits[0].log_softmax(-1)
    return table[prompt - 1 : -1]


def autograd(model, loss):
    model.zero_grad(set_to_none=True)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def policy_loss(model, minibatch):
    """On policy: the ratio is 1 in value, and its gradient that of log pi."""
    rows = [row for group in minibatch.groups for row in group]
    tokens = sum(len(row.completion_ids) for row in rows)
    total = 0.0
    for row in rows:
        table = tables(model, (*row.prompt_ids, *row.completion_ids))
        now = table.gather(1, torch.tensor(row.completion_ids)[:, None])[:, 0]
        ratio = (now - torch.tensor(row.old_logprobs)).exp()
        total = total - (ratio * row.advantage).sum() / tokens
    return total


@pytest.fixture
def models(make_model):
    return make_model(), make_model(seed=1)


def penalty_by_hand(kind, pi, p0):
    return {
        "entropy": lambda: (pi.exp() * pi).sum(-1),
        "exact_reverse_kl": lambda: (pi.exp() * (pi - p0)).sum(-1),
        "exact_forward_kl": lambda: (p0.exp() * (p0 - pi)).sum(-1),
    }[kind]()


KINDS = ["entropy", "exact_reverse_kl", "exact_forward_kl"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharing", ["always", "never"])
def test_penalties_over_the_vocabulary_have_the_gradient_written_out_by_hand(models, kind, sharing):
    model, reference = models
    minibatch = replace(batch_of(model, reference), stored={})
    objective = objective_of(penalties={"p": {"kind": kind, "weight": 0.3}})
    found, report = gradient(model, minibatch, objective, reference=reference, sharing=sharing)
    total, tokens = 0.0, sum(len(ids) - 2 for ids in ANSWERS)
    for ids in ANSWERS:  # the row without advantage too
        pi, p0 = tables(model, ids), tables(reference, ids).detach()
        total = total + penalty_by_hand(kind, pi, p0).sum() / tokens
    expected = autograd(model, policy_loss(model, minibatch) + 0.3 * total)
    assert (found - expected).abs().max() <= 1e-6
    assert report.penalties["p"] == pytest.approx(float(total.detach()), abs=1e-6)


EVERYTHING = {
    "penalties": {
        "wide": {"kind": "entropy", "weight": 0.1},
        "near": {"kind": "exact_reverse_kl", "weight": 0.2},
    },
    "surrogate": {"kind": "unclipped"},
    "anchors": {"kept": KEPT},
}


@pytest.mark.parametrize("budget", [1, 9, 14])
@pytest.mark.parametrize("blocks", [False, True])
def test_cutting_into_microbatches_and_blocks_changes_nothing(models, monkeypatch, budget, blocks):
    model, reference = models
    minibatch = batch_of(model, reference, shift=0.1)
    objective = objective_of(**EVERYTHING)
    whole, report = gradient(model, minibatch, objective, reference=reference)
    if blocks:
        monkeypatch.setattr(forward_logprobs, "_LOGITS_AT_ONCE", 0)
        monkeypatch.setattr(over_vocabulary, "TABLE", 20)
    cut, cut_report = gradient(model, minibatch, objective, reference=reference, budget=budget)
    assert torch.allclose(whole, cut, atol=1e-6, rtol=1e-4)
    for name in ("wide", "near"):
        assert cut_report.penalties[name] == pytest.approx(report.penalties[name], rel=1e-4)
    assert cut_report.anchors["kept"] == pytest.approx(report.anchors["kept"], rel=1e-4)


def test_on_a_gpu_an_update_waits_once_however_many_micro_batches_it_has(models, monkeypatch):
    model, reference = models
    minibatch = batch_of(model, reference, shift=0.1)
    objective, backward, backwards = objective_of(**EVERYTHING), torch.autograd.backward, []
    with CountingDevice(exact=True) as device:
        policy, initial = device.move(deepcopy(model)), device.move(deepcopy(reference))
        monkeypatch.setattr(sharing, "_refusal", lambda *_: None)  # not asked: that takes long
        gradient(policy, minibatch, objective, reference=initial, sharing="always")  # asks heads
        monkeypatch.setattr(torch.autograd, "backward", lambda x: backwards.append(backward(x)))
        for budget, least, on_policy in ((999, 1, False), (14, 2, True), (1, 5, False)):
            how = {"budget": budget, "on_policy": on_policy, "sharing": "always"}
            expected, report = gradient(model, minibatch, objective, reference=reference, **how)
            backwards.clear()
            with device.counting(f"{budget}") as counts:
                found, other = gradient(policy, minibatch, objective, reference=initial, **how)
            assert counts.waits == 1, str(counts)
            assert len(backwards) >= least
            assert (device.numbers(found) - expected).abs().max() <= 1e-5 * expected.abs().max()
            assert other.penalties == pytest.approx(report.penalties, rel=1e-4)
            assert other.gap.mean == pytest.approx(0.1, rel=1e-3)


def test_every_term_has_a_gradient_of_its_own_in_that_step(models):
    model, reference = models
    minibatch = batch_of(model, reference, shift=0.1)
    whole, _ = gradient(model, minibatch, objective_of(**EVERYTHING), reference=reference)
    for name in EVERYTHING["penalties"]:
        rest = {n: term for n, term in EVERYTHING["penalties"].items() if n != name}
        objective = objective_of(**{**EVERYTHING, "penalties": rest})
        without, _ = gradient(model, minibatch, objective, reference=reference)
        assert not torch.allclose(whole, without, atol=1e-4)
    plain = objective_of(**{**EVERYTHING, "surrogate": {"clip_low": 0.05, "clip_high": 0.05}})
    without, _ = gradient(model, minibatch, plain, reference=reference)
    assert not torch.allclose(whole, without, atol=1e-4)


def test_two_anchors_keep_their_rows_and_weights_apart(models):
    model, reference = models
    samples = batch_of(model, reference).stored["kept"]
    stored = {"one": samples[:1], "two": samples[1:]}
    both = {name: {**KEPT, "weight": weight} for name, weight in (("one", 0.2), ("two", 0.7))}
    together, _ = gradient(
        model, Minibatch(groups=(), stored=stored), objective_of(anchors=both), budget=9
    )
    apart = 0.0
    for name in both:
        batch = Minibatch(groups=(), stored={name: stored[name]})
        apart = apart + gradient(model, batch, objective_of(anchors={name: both[name]}))[0]
    assert torch.allclose(together, apart, atol=1e-6)
