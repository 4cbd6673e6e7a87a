"""Answers as targets: the likelihood of those that were chosen, and of nothing else."""

import math

import numpy as np
import pytest
import torch

from dph.loss.divergences import DistributionKL
from dph.records import Problem
from dph.runs.presample.stores.groups import (
    StoredGroup,
    answer_trie,
    branch_factors,
    branch_values,
    tilted,
)
from dph.runs.presample.stores.store import chosen_answers, majority_vote, tilted_answers
from dph.runs.train.loss_batch import target_buckets

END, VOCABULARY = 3, 4
ANSWERS = [(0, END), (1, END), (0, END), (0, 2, END), (1, 1, END)]
CLASSES = [0, 1, 0, 0, None]


def group_of(answers):
    """Answers whose stored distributions are even; what was stored of them must not be read."""
    nodes = {answer[:t] for answer in answers for t in range(len(answer))}
    even = np.log(np.full(VOCABULARY, 1 / VOCABULARY))
    return StoredGroup(
        problem=Problem(problem_id="p", prompt="?"),
        prompt_ids=(9,),
        texts=tuple(map(str, answers)),
        finished=(True,) * len(answers),
        completions=tuple(answers),
        ref_logprobs=tuple((-math.log(VOCABULARY),) * len(answer) for answer in answers),
        token_ids=(tuple(range(VOCABULARY)),) * len(nodes),
        logprobs=(even,) * len(nodes),
        log_tails=(-math.inf,) * len(nodes),
    )


def policy():
    """Logits of a policy that is a table: one row for each beginning of an answer."""
    random = torch.Generator().manual_seed(0)
    beginnings = sorted({a[:t] for a in ANSWERS for t in range(len(a))})
    return {
        b: torch.randn(VOCABULARY, generator=random, dtype=torch.float64, requires_grad=True)
        for b in beginnings
    }


def term(samples, table):
    """The anchor's sum over all positions, by the very tensors that a step makes."""
    buckets = target_buckets(samples)
    rows = torch.stack(
        [
            table[s.completion_ids[:t]].log_softmax(-1)
            for s in samples
            for t in range(len(s.completion_ids))
        ]
    )
    told = rows.gather(1, buckets.ids)
    rest = (1 - told.exp().sum(-1, keepdim=True)).log()
    logprobs = torch.cat([told, rest], dim=-1)
    return DistributionKL().over_buckets(buckets.targets.double(), logprobs).sum()


def test_the_term_is_the_negative_log_likelihood_of_the_voted_answers_by_hand():
    table = policy()
    value = term(chosen_answers(group_of(ANSWERS), majority_vote(CLASSES)), table)
    voted = [(0, END), (0, END), (0, 2, END)]
    logprobs = {b: row.detach().log_softmax(-1) for b, row in table.items()}
    by_hand = -sum(
        logprobs[answer[:t]][token].item() for answer in voted for t, token in enumerate(answer)
    )
    assert value.item() == pytest.approx(by_hand, rel=1e-12)


def test_its_gradient_is_what_the_policy_says_less_what_the_voted_answers_say():
    """Of -log softmax: (times a beginning is met) * pi - (times each token follows it)."""
    table = policy()
    term(chosen_answers(group_of(ANSWERS), majority_vote(CLASSES)), table).backward()
    follows = {(): {0: 3}, (0,): {END: 2, 2: 1}, (0, 2): {END: 1}}
    for beginning, row in table.items():
        counts = torch.zeros(VOCABULARY, dtype=torch.float64)
        for token, count in follows.get(beginning, {}).items():
            counts[token] = count
        wanted = counts.sum() * row.detach().softmax(-1) - counts
        found = torch.zeros(VOCABULARY).double() if row.grad is None else row.grad
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_likeliest_policy_is_the_stored_one_given_that_it_is_chosen():
    """The maximum over all tables: how often each token follows, among chosen answers alone."""
    shares = {(): (1, 0, 0, 0), (0,): (0, 0, 1 / 3, 2 / 3), (0, 2): (0, 0, 0, 1)}
    samples = chosen_answers(group_of(ANSWERS), majority_vote(CLASSES))
    best = {b: torch.tensor(p, dtype=torch.float64).log() for b, p in shares.items()}
    # -log likelihood of the three answers at the maximum: their entropy, 3 ln 3 - 2 ln 2.
    logs = [best[s.completion_ids[:t]][v] for s in samples for t, v in enumerate(s.completion_ids)]
    assert -sum(logs).item() == pytest.approx(3 * math.log(3) - 2 * math.log(2))
    assert term(samples, policy()).item() > -sum(logs).item()


def test_where_values_are_exact_the_tilt_of_one_has_the_same_likeliest_policy():
    """16 answers drawn exactly as often as their probabilities say, of which three kinds won."""
    shares = {(0, END): 6, (1, END): 4, (0, 2, END): 2, (1, 1, END): 3, (2, END): 1}
    drawn = [answer for answer, count in shares.items() for _ in range(count)]
    chosen = {(0, END), (0, 2, END), (1, 1, END)}
    weights = [float(answer in chosen) for answer in drawn]
    trie = answer_trie(drawn)
    values = branch_values(trie, weights, pseudo_answers=0.0, floor=0.0)
    factors = branch_factors(trie, values, 1.0)
    samples = chosen_answers(group_of(drawn), weights)
    for answer in chosen:
        for t in range(len(answer)):
            beginning, node = answer[:t], trie.paths[drawn.index(answer)][t]
            among = [a[t] for a in drawn if len(a) > t and a[:t] == beginning]
            p0 = np.log([among.count(v) / len(among) for v in sorted(set(among))])
            q, _ = tilted(sorted(set(among)), p0, -math.inf, factors[node])
            own = [s.token_ids[t][0] for s in samples if s.completion_ids[:t] == beginning]
            counted = [own.count(v) / len(own) for v in sorted(set(among))]
            np.testing.assert_allclose(np.exp(q), counted, rtol=1e-12)


def test_answers_keep_their_places_and_their_log_probs_and_lose_all_else():
    group = group_of(ANSWERS)
    whole = tilted_answers(group, None, 0.0)
    kept = chosen_answers(group, [0.0, 1.0, 0.0, 0.0, 1.0])
    assert [sample.sample_index for sample in kept] == [1, 4]
    for sample in kept:
        own = whole[sample.sample_index]
        assert (sample.completion_ids, sample.ref_logprobs) == (
            own.completion_ids,
            own.ref_logprobs,
        )
        assert sample.token_ids == tuple((token,) for token in own.completion_ids)
        assert set(sample.logprobs) == {(0.0,)}
        assert set(sample.log_tails) == {-math.inf}


def test_weights_between_nothing_and_one_choose_nobody():
    assert chosen_answers(group_of(ANSWERS), [0.0, 0.5, 0.99, 0.0, 0.0]) == []
