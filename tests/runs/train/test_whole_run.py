"""Whole runs against plain formulas in float64, from the rollouts to the last weight.

Only what was drawn and who goes into which mini-batch is taken from the loop. Rewards, advantages,
old and reference log-probs, losses, clipping of gradients and AdamW are computed here, row by row,
without masks, micro-batches or skipped groups. Adam's eps is large, since a small one makes
rounding noise as big as any other gradient.
"""

import copy
import math
from statistics import fmean, stdev

import pytest
import torch

from dph._base.randomness import generator
from dph.runs.train.collect import collect
from dph.runs.train.loop import Actors, train
from dph.runs.train.rows import rehearsal_of_step
from loop_parts import letters_recipe, stored_answer

TEMPERATURE, MAX_TOKENS = 0.7, 8
F_OF = {
    "k3": lambda u, _: u - 1 - u.log(),
    "nll": lambda u, _: -u.log(),
    "jensen_shannon": lambda u, _: u * u.log() - (u + 1) * ((u + 1) / 2).log(),
    "alpha": lambda u, a: (u ** (1 - a) - (1 - a) * u - a) / (a * (a - 1)),
    "reverse_kl": lambda u, _: u * u.log() - u + 1,
}
CASES = [
    ("grpo", "fixed_length", {"advantage_scale": "none"}, {"epochs": 3}),
    ("dapo", "sequence_mean", {"overlong_buffer": 0.5}, {}),
    ("rkl", "sequence_mean", {"kl_coefficient": 0.5}, {}),
    ("alpha", "token_mean", {"alpha": 0.3}, {}),
    ("dph_f", "token_mean", {"forward_kl_form": "nll"}, {}),
    ("dph_js_definition", "token_mean", {}, {}),
    ("f_grpo", "sequence_mean", {"advantage": {"gamma": 2.0}}, {}),
    ("entropy_bonus", "token_mean", {"penalties": {"entropy": {"weight": 0.4}}}, {}),
]
MORE = [
    ("grpo", "token_mean", {}, {}),
    ("rkl", "token_mean", {"kl_coefficient": 0.5, "kl_estimator": "k2"}, {}),
    ("rkl", "fixed_length", {"kl_coefficient": 0.5, "kl_estimator": "k3"}, {}),
    ("dph_f", "fixed_length", {}, {"minibatches": 3}),
    ("dph_f", "token_mean", {"divergence": "reverse_kl"}, {"old_logprobs": "recompute"}),
    ("dph_js", "sequence_mean", {}, {}),
    ("dph_js_definition", "sequence_mean", {}, {"minibatches": 1, "epochs": 3}),
    ("maxrl", "token_mean", {}, {}),
    ("exact_rkl", "sequence_mean", {"penalties": {"exact_reverse_kl": {"weight": 0.6}}}, {}),
    ("exact_fkl", "token_mean", {"penalties": {"exact_forward_kl": {"weight": 0.6}}}, {}),
]
ALL = [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE)]


def make_recipe(method, reduction, objective, settings):
    eta = {"eta": 0.7} if method.startswith(("alpha", "dph")) else {}
    train = {
        "steps": 2,
        "problems_per_step": 6,
        "rehearsal_per_step": 5,
        "learning_rate": 5e-2,
        "eps": 1e-2,
        "warmup_steps": 3,
        "weight_decay": 0.1,
        "max_grad_norm": 0.5,
        "minibatches": 2,
        "epochs": 2,
        "microbatch_tokens": 40,
        "checkpoint_every": 9,
        **settings,
    }
    return letters_recipe(
        method,
        seed=3,
        sampling={"max_tokens": MAX_TOKENS, "temperature": TEMPERATURE},
        objective={"reduction": reduction, **eta, **objective},
        train=train,
    )


def next_tokens(model, prompt, completion):
    """Log-probs of all tokens at each place of the completion."""
    ids = torch.tensor([[*prompt, *completion]])
    table = (model(input_ids=ids).logits[0].double() / TEMPERATURE).log_softmax(-1)
    return table[len(prompt) - 1 : -1]


def logprobs(model, prompt, completion):
    table = next_tokens(model, prompt, completion)
    return torch.stack([row[token] for row, token in zip(table, completion, strict=True)])


def rewards_of(group, objective):
    buffer = round(objective.overlong_buffer * MAX_TOKENS)
    for graded in group.completions:
        over = len(graded.completion.token_ids) - (MAX_TOKENS - buffer)
        yield graded.verdict.reward - (max(over, 0) / buffer if buffer else 0.0)


def advantages_of(group, objective):
    rewards = list(rewards_of(group, objective))
    if max(rewards) - min(rewards) < 1e-9:
        return [0.0] * len(rewards)
    kind, settings, mean = objective.advantage.kind, objective.advantage.parameters, fmean(rewards)
    scale = stdev(rewards) + 1e-6 if settings.get("scale", "std") == "std" else 1.0
    scale = {"maxrl": mean, "f_grpo": scale * (1 - mean) ** -settings.get("gamma", 0)}.get(
        kind, scale
    )
    return [(reward - mean) / scale for reward in rewards]


def weights_of(completions, reduction):
    rows, tokens = len(completions), sum(map(len, completions))
    return {
        "token_mean": [1 / tokens] * rows,
        "sequence_mean": [1 / (rows * len(ids)) for ids in completions],
        "fixed_length": [1 / (rows * MAX_TOKENS)] * rows,
    }[reduction]


def penalty_of(penalty, here, there, x, ratio):
    """Of every token, from all log-probs at its place and from its own log-ratio."""
    if penalty.kind == "entropy":
        return (here.exp() * here).sum(-1)
    if penalty.kind == "exact_reverse_kl":
        return (here.exp() * (here - there)).sum(-1)
    if penalty.kind == "exact_forward_kl":
        return (there.exp() * (there - here)).sum(-1)
    estimator, k3 = penalty.parameters["estimator"], (-x).exp() - 1 + x
    return {"k2": x**2 / 2, "k3": k3, "unbiased": ratio * k3}[estimator]


def policy_loss(model, row, objective):
    prompt, completion, advantage, old, there = row
    here = next_tokens(model, prompt, completion)
    own = torch.tensor(completion)[:, None]
    now, ref = here.gather(1, own)[:, 0], there.gather(1, own)[:, 0]
    ratio = (now - old).exp()
    clip = objective.surrogate.parameters
    bounded = ratio.clamp(1 - clip["clip_low"], 1 + clip["clip_high"])
    loss = -torch.minimum(ratio * advantage, bounded * advantage)
    x = now - ref
    for penalty in objective.penalties.values():
        loss = loss + penalty.weight * penalty_of(penalty, here, there, x, ratio)
    if by_definition(objective):  # KL(pi || M) on its own samples
        to_mixture = x - ((1 + x.exp()) / 2).log()
        eta = objective.anchors["rehearsal"].weight
        loss = loss + eta * (ratio * to_mixture - (ratio - 1) / 2)
    return loss.sum()


def rehearsal_loss(model, sample, objective):
    now = logprobs(model, sample.prompt_ids, sample.completion_ids)
    u = (now - torch.tensor(sample.ref_logprobs, dtype=torch.float64)).exp()
    if by_definition(objective):  # KL(pi_ref || M), k3 form
        return F_OF["k3"]((1 + u) / 2, None).sum()
    anchor = objective.anchors["rehearsal"]
    name = anchor.parameters.get("form", anchor.divergence)
    return F_OF[name](u, anchor.parameters.get("alpha")).sum()


def by_definition(objective):
    anchor = objective.anchors.get("rehearsal")
    return anchor is not None and anchor.divergence == "jensen_shannon_definition"


class PlainAdamW:
    def __init__(self, model, settings):
        self.parameters, self.settings, self.n = list(model.parameters()), settings, 0
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]

    def step(self, loss):
        s, gradients = self.settings, torch.autograd.grad(loss, self.parameters)
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        rate = s.learning_rate * min(1, (self.n + 1) / (s.warmup_steps + 1))
        self.n += 1
        moments = zip(self.parameters, gradients, self.first, self.second, strict=True)
        for p, g, first, second in moments:
            g = g * min(1.0, s.max_grad_norm / (norm + 1e-6))
            decay = s.weight_decay if p.dim() > 1 else 0.0
            first.copy_(s.betas[0] * first + (1 - s.betas[0]) * g)
            second.copy_(s.betas[1] * second + (1 - s.betas[1]) * g**2)
            mean = first / (1 - s.betas[0] ** self.n)
            spread = (second / (1 - s.betas[1] ** self.n)).sqrt() + s.eps
            p.data.copy_(p.data * (1 - rate * decay) - rate * mean / spread)


def rows_of(group, model, initial, objective):
    prompt = group.prompt_ids
    for graded, a in zip(group.completions, advantages_of(group, objective), strict=True):
        ids = graded.completion.token_ids
        yield prompt, ids, a, logprobs(model, prompt, ids), next_tokens(initial, prompt, ids)


def replay(recipe, initial, rollouts, pool):
    """The weights after the rollouts, by the formulas."""
    model, settings, objective = copy.deepcopy(initial), recipe.train, recipe.objective
    optimizer = PlainAdamW(model, settings)
    for step, rollout in enumerate(rollouts, start=1):
        order = generator(recipe.seed, "minibatches", step).permutation(len(rollout.groups))
        count = settings.rehearsal_per_step if objective.rehearses else 0
        stored = rehearsal_of_step(pool, count, step, seed=recipe.seed)
        with torch.no_grad():
            groups = [list(rows_of(rollout.groups[i], model, initial, objective)) for i in order]
        parts = min(settings.minibatches, len(groups))
        for part in [*range(parts)] * settings.epochs:
            rows = [row for group in groups[part::parts] for row in group]
            weights = weights_of([row[1] for row in rows], objective.reduction)
            loss = sum(
                w * policy_loss(model, row, objective) for row, w in zip(rows, weights, strict=True)
            )
            if samples := stored[part::parts]:
                weights = weights_of([s.completion_ids for s in samples], objective.reduction)
                loss = loss + objective.anchors["rehearsal"].weight * sum(
                    w * rehearsal_loss(model, sample, objective)
                    for sample, w in zip(samples, weights, strict=True)
                )
            optimizer.step(loss)
    return model


def distance(a, b):
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return math.sqrt(sum(float((p.double() - q).detach().square().sum()) for p, q in pairs))


@pytest.mark.parametrize("case", ALL, ids=lambda case: "-".join(case[:2]))
def test_a_run_ends_with_the_weights_that_the_formulas_give(
    make_model, make_draw, tokenizer, problems, tmp_path, monkeypatch, case
):
    recipe = make_recipe(*case)
    policy, initial = make_model(), make_model().double()
    draw = make_draw(policy, temperature=TEMPERATURE, max_tokens=MAX_TOKENS)
    with torch.no_grad():
        first = draw(problems, samples=1, seed=99)
        pool = []
        for problem, prompt, group in zip(first.problems, first.prompts, first.groups, strict=True):
            ids = group[0].completion.token_ids
            ref = tuple(logprobs(initial, prompt, ids).tolist())
            pool.append(stored_answer(ids, ref, prompt=prompt, problem=problem.problem_id))
    rollouts, metrics = [], []

    def recorded(*args, **kwargs):
        rollouts.append(collect(*args, **kwargs))
        return rollouts[-1]

    monkeypatch.setattr("dph.runs.train.loop.collect", recorded)
    reference = make_model() if recipe.objective.needs_reference_model else None
    actors = Actors(policy=policy, tokenizer=tokenizer, reference=reference, draw=draw)
    stored = {"rehearsal": pool}
    train(recipe, tmp_path, actors, problems, stored, digest="d", on_step=metrics.append)
    expected = replay(recipe, initial, rollouts, pool)
    # float32 forwards and eight updates or more: measured 2e-6 at most.
    assert distance(policy, expected) < 2e-5 * distance(expected, initial)
    assert any(m["clipped_low"] + m["clipped_high"] > 0 for m in metrics)  # off-policy, then
