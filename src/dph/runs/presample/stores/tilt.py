"""Raising the branches of answers that are worth more: from values of answers to those of tokens.

**Source**: this package's own method (docs/stores.md). At strength 1 and with exact values it is
the identity p(v | n, a) = p(v | n) P(a | n v) / P(a | n) that FUDGE (arXiv:2104.05218) samples by,
with the weight of an answer in the place of the probability of an attribute.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dph.runs.presample.stores.trie import AnswerTrie

FLOOR = 0.02
"""Least value of a branch: an answer that nobody agrees with is made rarer, not impossible."""
PSEUDO_ANSWERS = 1.0
"""Answers' worth of the parent's value that a branch's value is drawn towards."""


def branch_values(
    trie: AnswerTrie,
    weights: Sequence[float],
    *,
    pseudo_answers: float = PSEUDO_ANSWERS,
    floor: float = FLOOR,
) -> NDArray[np.float64]:
    """V of every node: the mean weight of the answers through it, drawn towards its parent's.

    Equation: V(root) = mean(w); V(n) = (sum of w through n + s V(parent)) / (answers through n + s)
    with s = ``pseudo_answers``; each at least ``floor``.
    Limits: with s = 0 and floor = 0 the plain means, E[w | n] where the answers are a sample of p0.
    """
    totals, counts = np.zeros(len(trie.parents)), np.zeros(len(trie.parents))
    for path, weight in zip(trie.paths, weights, strict=True):
        nodes = np.asarray(path)
        totals[nodes] += weight
        counts[nodes] += 1
    values = np.empty(len(trie.parents))
    values[0] = max(floor, totals[0] / counts[0])
    for node in range(1, len(values)):  # parents come before their children
        drawn = totals[node] + pseudo_answers * values[trie.parents[node]]
        values[node] = max(floor, drawn / (counts[node] + pseudo_answers))
    return values


def branch_factors(
    trie: AnswerTrie, values: NDArray[np.float64], strength: float
) -> list[dict[int, float]]:
    """Log of (V(child) / V(node)) ** strength, by token, for every child of every node.

    Limits: 0 at strength 0; 0 below a node of value 0, where nothing is known to be better; -inf
    for a child of value 0 (with ``floor`` above 0 there is none).
    """
    factors: list[dict[int, float]] = []
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    for node, children in enumerate(trie.children):
        known = strength > 0 and values[node] > 0
        factors.append(
            {
                token: strength * float(logs[child] - logs[node]) if known else 0.0
                for token, child in children.items()
            }
        )
    return factors


def tilted(
    token_ids: Sequence[int],
    logprobs: NDArray[np.float64],
    log_tail: float,
    factors: dict[int, float],
) -> tuple[NDArray[np.float64], float]:
    """The distribution of one node with its children raised, and the rest as it was, summing to 1.

    Equation: q(v | n) = p0(v | n) f(v) / Z(n), f(v) = (V(n v) / V(n)) ** strength for children
    that some answer takes and 1 for all other tokens; Z(n) is the sum over all tokens.
    With exact values and strength 1, Z = 1 and the q multiply to p0(y) w(y) / E[w]. At another
    strength b they multiply to p0(y) (w(y) / E[w]) ** b / (product of Z along y): of all choices of
    the next token the one with the largest b E_q[log V] - KL(q || p0), node by node.
    Units: nats.
    """
    moved = logprobs + np.array([factors.get(token, 0.0) for token in token_ids])
    top = max(float(moved.max()), log_tail)
    total = top + np.log(np.exp(moved - top).sum() + np.exp(log_tail - top))
    return moved - total, float(log_tail - total)
