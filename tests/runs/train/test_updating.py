import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from counting_device import CountingDevice
from dph.model.forward import logprobs as forward_logprobs
from dph.model.forward import over_vocabulary, packing, sharing
from dph.runs.train.rows import Minibatch, PolicyRow
from dph.runs.train.updating import NonFiniteLossError, update, weigh
from loop_parts import Frozen, score, stored_answer, training_forward
from short_objective import from_settings


def policy_row(model, prompt, ids, advantage, old=None, ref=None):
    return PolicyRow(
        prompt_ids=prompt,
        completion_ids=ids,
        advantage=advantage,
        old_logprobs=score(model, prompt, ids) if old is None else old,
        ref_logprobs=ref,
    )


def gradient(
    model, minibatch, objective, budget=999, *, sharing="auto", reference=None, on_policy=False
):
    model.zero_grad(set_to_none=True)
    optimizer = Frozen(model.parameters(), lr=1.0)
    forward = training_forward(model, token_budget=budget, sharing=sharing, reference=reference)
    more = {"objective": objective, "max_grad_norm": 1e9, "on_policy": on_policy}
    report = update(minibatch, forward, optimizer, **more)
    return optimizer.gradient, report


@pytest.fixture
def minibatch(make_model):
    policy, reference = make_model(), make_model(seed=1)
    asked = [(3, 4), (5, 6, 1), 1.0], [(3, 4), (7, 1), -1.0]
    flat = [(3, 5), (5, 1), 0.0], [(3, 5), (8, 8, 8, 1), 0.0]
    groups = tuple(tuple(policy_row(policy, *row) for row in group) for group in (asked, flat))
    rehearsal = tuple(
        stored_answer(ids, score(reference, prompt, ids), prompt=prompt)
        for prompt, ids in (((3, 6), (4, 1)), ((3, 7), (4, 4, 1)))
    )
    return policy, Minibatch(groups=groups, stored={"rehearsal": rehearsal})


DPH = from_settings(divergence="jensen_shannon", eta=0.7, clip_high=0.28)


@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean", "fixed_length"])
def test_the_gradient_equals_plain_autograd_of_the_formula(minibatch, reduction):
    model, batch = minibatch
    objective = replace(DPH, reduction=reduction)
    found, report = gradient(model, batch, objective)

    def weight(rows, row):
        tokens = sum(len(r.completion_ids) for r in rows)
        return {
            "token_mean": 1 / tokens,
            "sequence_mean": 1 / (len(rows) * len(row.completion_ids)),
            "fixed_length": 1 / (len(rows) * 8),
        }[reduction]

    policy = [row for group in batch.groups for row in group]
    total = 0.0
    for row in policy:  # on policy the ratio is 1 in value
        ratio = (own_logprobs(model, row) - torch.tensor(row.old_logprobs)).exp()
        total = total - weight(policy, row) * (ratio * row.advantage).sum()
    for row in batch.stored["rehearsal"]:
        u = (own_logprobs(model, row) - torch.tensor(row.ref_logprobs)).exp()
        f = u * u.log() - (u + 1) * ((u + 1) / 2).log()
        total = total + 0.7 * weight(batch.stored["rehearsal"], row) * f.sum()
    expected = autograd(model, total)
    assert torch.allclose(found, expected, atol=1e-6, rtol=1e-4)
    assert report.grad_norm == pytest.approx(float(expected.norm()), rel=1e-4)


def test_groups_without_signal_are_skipped_but_still_count_in_the_denominator(minibatch):
    model, batch = minibatch
    plain = from_settings()
    _, report = gradient(model, batch, plain)
    assert (report.rows, report.skipped) == (2, 2)  # two flat rows
    tokens = 3 + 2 + 2 + 4
    weighted = weigh(batch, objective=plain, max_tokens=8)
    assert [w.weight for w in weighted] == pytest.approx([1 / tokens] * 2)


def test_eta_zero_is_the_policy_loss_alone(minibatch):
    model, batch = minibatch
    without, _ = gradient(model, batch, from_settings(clip_high=0.28))
    zero = from_settings(divergence="jensen_shannon", eta=0.0, clip_high=0.28)
    with_zero, _ = gradient(model, batch, zero)
    assert torch.equal(without, with_zero)


def test_the_clip_bounds_are_those_of_the_settings(make_model):
    model = make_model()
    old = tuple(x - math.log(1.25) for x in score(model, (3, 4), (5, 1)))
    batch = Minibatch(groups=((policy_row(model, (3, 4), (5, 1), 1.0, old=old),),), stored={})
    _, tight = gradient(model, batch, from_settings(clip_high=0.2))
    _, wide = gradient(model, batch, from_settings(clip_high=0.28))
    assert tight.clipped_high == pytest.approx(1.0)
    assert tight.grad_norm == 0
    assert wide.clipped_high == 0
    assert wide.grad_norm > 0


def on_one_schema(model):
    """Two groups and a stored answer, whose prompts begin alike."""
    schema = tuple(3 + i % 5 for i in range(30))
    first, second, third = (*schema, *[8] * 18), (*schema, *[7] * 18), (*schema, 6)
    answers = (5, 6, 1), (7, 1), (5, 1)
    groups = tuple(
        tuple(policy_row(model, prompt, answer, i - 0.5) for i, answer in enumerate(answers))
        for prompt in (first, second)
    )
    reference = tuple(x - 0.2 for x in score(model, third, answers[0]))
    sample = stored_answer(answers[0], reference, prompt=third)
    return Minibatch(groups=groups, stored={"rehearsal": (sample,)})


def test_what_was_computed_is_counted(minibatch):
    model, _ = minibatch
    batch, counts = on_one_schema(model), {}
    for way in ("always", "never"):
        _, report = gradient(model, batch, DPH, sharing=way)
        counts[way] = report.row_tokens, report.computed_tokens
    # the schema, two ends of prompts with their answers' but last tokens, the stored row's end
    packed = 30 + 2 * (18 + 2 + 1 + 1) + 1 + 2
    # answers that begin alike: 5 stands twice, as sharing it would save one token only
    rows = 2 * (3 * 48 + 3 + 2 + 2) + 31 + 3
    assert counts == {"always": (rows, packed), "never": (rows, 7 * 51)}


def test_the_tree_of_an_update_is_built_once_and_once_for_each_micro_batch(minibatch, monkeypatch):
    model, _ = minibatch
    batch = on_one_schema(model)
    gradient(model, batch, DPH, sharing="always")  # probes the model once
    built, build = [], packing.prefix_forest

    def counted(rows, **options):
        built.append(len(rows))
        return build(rows, **options)

    for module in (sharing, packing):
        monkeypatch.setattr(module, "prefix_forest", counted)
    gradient(model, batch, DPH, sharing="always")
    assert built == [7, 7]


@pytest.mark.parametrize("shape", ["small", "on one schema"])
@pytest.mark.parametrize("budget", [1, 9, 70, 999])
def test_sharing_prompts_changes_nothing(minibatch, budget, shape):
    model, batch = minibatch
    if shape == "on one schema":
        batch = on_one_schema(model)
    shared, packed = gradient(model, batch, DPH, budget, sharing="always")
    plain, padded = gradient(model, batch, DPH, budget, sharing="never")
    assert (shared - plain).abs().max() <= 1e-5 * plain.abs().max()
    assert (packed.packed, padded.packed) == (packed.rows, 0)
    assert packed.anchors["rehearsal"] == pytest.approx(padded.anchors["rehearsal"], rel=1e-4)


def test_masked_rows_are_as_if_they_were_not_there_and_have_no_penalty(minibatch, make_model):
    model, batch = minibatch
    signal, flat = batch.groups
    masked = tuple(replace(row, masked=True, advantage=9.0) for row in flat)
    without, _ = gradient(model, Minibatch(groups=(signal,), stored=batch.stored), DPH)
    found, report = gradient(model, Minibatch(groups=(signal, masked), stored=batch.stored), DPH)
    assert torch.equal(found, without)
    assert (report.rows, report.skipped, report.masked) == (4, 2, 2)
    model = make_model()
    row = replace(policy_row(model, (3, 4), (5, 1), 1.0, ref=(-1.0, -2.0)), masked=True)
    batch = Minibatch(groups=((row,),), stored={})
    found, report = gradient(model, batch, from_settings(kl_coefficient=0.1))
    assert not found.any()
    assert report.rows == 0


def moved(minibatch, by):
    """The same rows with old log-probs that are lower, by more from token to token."""
    groups = tuple(
        tuple(
            replace(row, old_logprobs=tuple(x - by * i for i, x in enumerate(row.old_logprobs, 1)))
            for row in group
        )
        for group in minibatch.groups
    )
    return replace(minibatch, groups=groups)


EVERY_RATIO = {
    "jensen_shannon_definition": {"divergence": "jensen_shannon_definition", "eta": 0.7},
    "clipped": {"divergence": "jensen_shannon", "eta": 0.7},
}


@pytest.mark.parametrize("terms", EVERY_RATIO)
@pytest.mark.parametrize("budget", [9, 999])
def test_on_policy_every_ratio_is_1_whatever_the_rows_hold(minibatch, terms, budget):
    model, batch = minibatch
    groups = tuple(
        tuple(replace(row, ref_logprobs=row.old_logprobs) for row in group)
        for group in batch.groups
    )
    batch, objective = replace(batch, groups=groups), from_settings(**EVERY_RATIO[terms])
    scored, report = gradient(model, batch, objective, budget)  # old log-probs of a forward before
    found, other = gradient(model, moved(batch, 5.0), objective, budget, on_policy=True)
    again, _ = gradient(model, batch, objective, budget, on_policy=True)
    assert torch.equal(found, again)
    assert torch.allclose(found, scored, atol=1e-6, rtol=1e-4)
    assert other.policy == pytest.approx(report.policy, abs=1e-6)
    assert (other.clipped_low, other.clipped_high) == (0, 0)


@pytest.mark.parametrize("budget", [1, 9, 999])
@pytest.mark.parametrize("on_policy", [False, True])
def test_the_gap_is_to_the_log_probs_of_the_rows_that_take_part(minibatch, budget, on_policy):
    model, batch = minibatch
    _, report = gradient(model, moved(batch, 0.5), DPH, budget, on_policy=on_policy)
    # Rows of 3 and 2 tokens; those of the flat group take no part.
    assert report.gap.mean == pytest.approx(0.5 * (1 + 2 + 3 + 1 + 2) / 5, abs=1e-5)
    assert report.gap.largest == pytest.approx(1.5, abs=1e-5)


def takes_no_step(model, batch, message, budget=999):
    """An update that is refused and leaves the weights alone; the rows that the error names."""
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    forward = training_forward(model, token_budget=budget)
    with pytest.raises(NonFiniteLossError, match=message) as caught:
        update(batch, forward, optimizer, objective=DPH, max_grad_norm=1.0)
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    assert all(p.grad is None for p in model.parameters())
    return [w.row.completion_ids for w in caught.value.rows]


@pytest.mark.parametrize(("budget", "named"), [(1, [1]), (999, [0, 1])])
def test_a_loss_that_is_not_finite_names_its_rows_and_takes_no_step(minibatch, budget, named):
    model, batch = minibatch
    rows = list(batch.groups[0])
    rows[1] = replace(rows[1], advantage=math.nan)
    bad = Minibatch(groups=(tuple(rows),), stored={"rehearsal": ()})
    found = takes_no_step(model, bad, "the loss is not finite", budget)
    assert set(found) == {rows[i].completion_ids for i in named}


def test_a_gradient_that_is_not_finite_takes_no_step(minibatch):
    model, batch = minibatch
    model.get_output_embeddings().weight.register_hook(lambda grad: grad * math.inf)
    assert len(takes_no_step(model, batch, "the gradient norm is not finite")) == 4


ANSWERS = ((3, 4, 5, 6, 1), (3, 4, 7, 1), (3, 5, 5, 1), (3, 5, 8, 8, 8, 1))
STORED = ((3, 8, 6, 1), (3, 7, 4, 4, 1), (3, 4, 5, 5, 6, 1))
ADVANTAGES = (1.0, -1.0, 0.5, 0.0)
KEPT = {"divergence": "forward_kl", "weight": 0.15}


def batch_of(model, reference, *, shift=0.0):
    """Four new answers in two groups and three stored ones; ``shift`` moves the old log-probs."""

    def row(ids, advantage):
        made = policy_row(model, ids[:2], ids[2:], advantage)
        old = tuple(x - shift * (-1) ** i for i, x in enumerate(made.old_logprobs))
        return replace(made, old_logprobs=old)

    def kept(ids):
        return stored_answer(ids[2:], score(reference, ids[:2], ids[2:]), prompt=ids[:2])

    rows = [row(*each) for each in zip(ANSWERS, ADVANTAGES, strict=True)]
    return Minibatch(
        groups=(tuple(rows[:2]), tuple(rows[2:])), stored={"kept": tuple(map(kept, STORED))}
    )


def tables(model, ids, prompt=2):
    """Log-probs of the whole vocabulary at each token of an answer, by the model's own forward."""
    table = model(input_ids=torch.tensor([list(ids)])).logits[0].log_softmax(-1)
    return table[prompt - 1 : -1]


def own_logprobs(model, row):
    table = tables(model, (*row.prompt_ids, *row.completion_ids), len(row.prompt_ids))
    return table.gather(1, torch.tensor(row.completion_ids)[:, None])[:, 0]


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
        ratio = (own_logprobs(model, row) - torch.tensor(row.old_logprobs)).exp()
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
    objective = from_settings(penalties={"p": {"kind": kind, "weight": 0.3}})
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
    objective = from_settings(**EVERYTHING)
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
    objective, backward, backwards = from_settings(**EVERYTHING), torch.autograd.backward, []
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
    whole, _ = gradient(model, minibatch, from_settings(**EVERYTHING), reference=reference)
    for name in EVERYTHING["penalties"]:
        rest = {n: term for n, term in EVERYTHING["penalties"].items() if n != name}
        objective = from_settings(**{**EVERYTHING, "penalties": rest})
        without, _ = gradient(model, minibatch, objective, reference=reference)
        assert not torch.allclose(whole, without, atol=1e-4)
    plain = from_settings(**{**EVERYTHING, "surrogate": {"clip_low": 0.05, "clip_high": 0.05}})
    without, _ = gradient(model, minibatch, plain, reference=reference)
    assert not torch.allclose(whole, without, atol=1e-4)


def test_two_anchors_keep_their_rows_and_weights_apart(models):
    model, reference = models
    samples = batch_of(model, reference).stored["kept"]
    stored = {"one": samples[:1], "two": samples[1:]}
    both = {name: {**KEPT, "weight": weight} for name, weight in (("one", 0.2), ("two", 0.7))}
    together, _ = gradient(
        model, Minibatch(groups=(), stored=stored), from_settings(anchors=both), budget=9
    )
    apart = 0.0
    for name in both:
        batch = Minibatch(groups=(), stored={name: stored[name]})
        apart = apart + gradient(model, batch, from_settings(anchors={name: both[name]}))[0]
    assert torch.allclose(together, apart, atol=1e-6)
