"""Targets of an anchor on stored answers: tilted distributions along them, or their own tokens."""

import math
from collections.abc import Sequence
from dataclasses import replace

from dph.runs.presample.stores.groups import (
    StoredGroup,
    answer_trie,
    branch_factors,
    branch_values,
    tilted,
)
from dph.runs.presample.tables import DistributionSample


def tilted_answers(
    group: StoredGroup, weights: Sequence[float] | None, tilt: float
) -> list[DistributionSample]:
    """Every answer with the distributions along it, raised towards answers of larger weight.

    Without ``weights`` they are the policy's own.
    """
    trie = answer_trie(group.completions)
    factors = None
    if weights is not None:
        factors = branch_factors(trie, branch_values(trie, weights), tilt)
    targets: dict[int, tuple[tuple[int, ...], tuple[float, ...], float]] = {}
    for node, ids, numbers, tail in zip(
        trie.inner, group.token_ids, group.logprobs, group.log_tails, strict=True
    ):
        own, rest = tilted(ids, numbers, tail, factors[node] if factors else {})
        targets[node] = ids, tuple(own.tolist()), rest
    return [
        DistributionSample(
            problem_id=group.problem.problem_id,
            sample_index=index,
            prompt_ids=group.prompt_ids,
            completion_ids=completion,
            ref_logprobs=logprobs,
            token_ids=tuple(targets[node][0] for node in path[:-1]),
            logprobs=tuple(targets[node][1] for node in path[:-1]),
            log_tails=tuple(targets[node][2] for node in path[:-1]),
        )
        for index, (completion, logprobs, path) in enumerate(
            zip(group.completions, group.ref_logprobs, trie.paths, strict=True)
        )
    ]


def chosen_answers(group: StoredGroup, weights: Sequence[float]) -> list[DistributionSample]:
    """The answers of weight 1, each token the whole of its target: plain likelihood.

    Equation: KL(one-hot at y_t || pi) = -log pi(y_t | x, y_<t), so that the forward KL from these
    targets is the negative log-likelihood of the chosen answers, each as often as it was drawn.
    **Source**: LMSI (arXiv:2210.11610) with the weights of a vote, RFT (arXiv:2308.01825) with
    those of right answers.
    **Differs from the paper**: RFT keeps of right answers with the same equations one.
    """
    return [
        replace(
            answer,
            token_ids=tuple((token,) for token in answer.completion_ids),
            logprobs=((0.0,),) * len(answer.completion_ids),
            log_tails=(-math.inf,) * len(answer.completion_ids),
        )
        for answer, weight in zip(tilted_answers(group, None, 0.0), weights, strict=True)
        if weight == 1
    ]
