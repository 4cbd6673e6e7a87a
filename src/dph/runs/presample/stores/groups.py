"""A prompt of a store, its answers and their distributions: a record, and a row of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import compress, repeat
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dph.errors import PoolError
from dph.records import Problem
from dph.tasks.problems import problem_columns, problem_of_columns

# The answers to one prompt as a tree: what begins alike is one path.

ROOT = 0


@dataclass(frozen=True, slots=True)
class AnswerTrie:
    """Nodes are beginnings of answers, numbered as the answers reach them; the root is 0.

    Attributes:
        paths: the nodes of each answer, from the root to its whole: one more than its tokens.
        parents: of each node; the root is its own.
        children: of each node, by the token of the policy that leads there. Results of tools, which
            are part of a trajectory, lead to nodes too, but nobody chose them.
    """

    paths: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    children: tuple[dict[int, int], ...]

    @property
    def inner(self) -> tuple[int, ...]:
        """The nodes where the policy continues: those that have a next-token distribution."""
        return tuple(node for node, children in enumerate(self.children) if children)


def answer_trie(
    answers: Sequence[Sequence[int]], written: Sequence[Sequence[bool]] | None = None
) -> AnswerTrie:
    """The tree of ``answers``, token ids each; ``written`` says which ones the policy wrote.

    >>> trie = answer_trie([(5, 7), (5, 8), (5, 7)])
    >>> trie.paths, trie.children
    (((0, 1, 2), (0, 1, 3), (0, 1, 2)), ({5: 1}, {7: 2, 8: 3}, {}, {}))
    >>> answer_trie([(5, 9, 7)], [(True, False, True)]).children  # a tool answered 9
    ({5: 1}, {}, {7: 3}, {})
    """
    parents, children, below = [ROOT], [dict[int, int]()], dict[tuple[int, int], int]()
    paths = []
    for index, answer in enumerate(answers):
        own = repeat(True, len(answer)) if written is None else written[index]
        node, path = ROOT, [ROOT]
        for token, chosen in zip(answer, own, strict=True):
            new = below.setdefault((node, token), len(parents))
            if new == len(parents):
                parents.append(node)
                children.append({})
            if chosen:
                children[node][token] = new
            node = new
            path.append(node)
        paths.append(tuple(path))
    return AnswerTrie(tuple(paths), tuple(parents), tuple(children))


# Raising the branches of answers that are worth more: from values of answers to those of tokens.
#
# **Source**: this package's own method (docs/stores.md). At strength 1 and with exact values it
# is the identity p(v | n, a) = p(v | n) P(a | n v) / P(a | n) that FUDGE (arXiv:2104.05218)
# samples by, with the weight of an answer in the place of the probability of an attribute.

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
    with s = ``pseudo_answers``; each at least ``floor``. The only result of a tool has the value
    of the call that led to it: the policy earns that value by calling, not by reading.
    Limits: with s = 0 and floor = 0 the plain means, E[w | n] where the answers are a sample of p0.
    """
    chosen = {child for children in trie.children for child in children.values()}
    totals, counts = np.zeros(len(trie.parents)), np.zeros(len(trie.parents))
    for path, weight in zip(trie.paths, weights, strict=True):
        nodes = np.asarray(path)
        totals[nodes] += weight
        counts[nodes] += 1
    values = np.empty(len(trie.parents))
    values[0] = max(floor, totals[0] / counts[0])
    for node in range(1, len(values)):  # parents come before their children
        parent = trie.parents[node]
        if node not in chosen and counts[node] == counts[parent]:
            values[node] = values[parent]
            continue
        drawn = totals[node] + pseudo_answers * values[parent]
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
    """The distribution of one node with its children raised, and the rest unchanged, summing to 1.

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


GROUPS = pa.schema(
    [
        ("problem_id", pa.string()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("texts", pa.list_(pa.string())),
        ("finished", pa.list_(pa.bool_())),
        ("completion_ids", pa.list_(pa.list_(pa.int32()))),
        ("ref_logprobs", pa.list_(pa.list_(pa.float32()))),
        ("token_ids", pa.list_(pa.list_(pa.int32()))),
        ("logprobs", pa.list_(pa.list_(pa.float16()))),
        ("log_tails", pa.list_(pa.float16())),
    ]
)
ACTING = (
    pa.field("written", pa.list_(pa.list_(pa.bool_()))),
    pa.field("ends", pa.list_(pa.string())),
    pa.field("rewarded", pa.list_(pa.bool_())),
)
"""Columns where the answers are trajectories."""
MASS_ERROR = 0.02
"""Tolerance of the sum of a distribution in float16 around 1."""
_ROWS = 256
"""Groups held as Python objects at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """Answers that are trajectories: who wrote them, and what they came to.

    Attributes:
        written: of every token whether the policy wrote it.
        ends: the answer of each; None where it was cut off, hung or crashed.
        rewarded: whether ``get_reward`` called it right; None where a verifier grades, or where
            nobody could tell.
    """

    written: tuple[tuple[bool, ...], ...]
    ends: tuple[str | None, ...]
    rewarded: tuple[bool | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A prompt, the answers to it, and one distribution for each node where the policy continues.

    ``token_ids``, ``logprobs`` and ``log_tails`` belong to ``trie.inner``, in that order: answers
    that begin alike share their distributions.
    """

    problem: Problem
    prompt_ids: tuple[int, ...]
    texts: tuple[str, ...]
    finished: tuple[bool, ...]
    completions: tuple[tuple[int, ...], ...]
    ref_logprobs: tuple[tuple[float, ...], ...]
    token_ids: tuple[tuple[int, ...], ...]
    logprobs: tuple[NDArray[np.float64], ...]
    """Nats; float16 in the file."""
    log_tails: tuple[float, ...]
    acting: Acting | None = None
    """Of trajectories."""

    @property
    def answered(self) -> tuple[str | None, ...]:
        """The texts of the answers; None for one that was cut off, which does not count as one."""
        if self.acting is not None:
            return self.acting.ends
        return tuple(t if done else None for t, done in zip(self.texts, self.finished, strict=True))

    @property
    def trie(self) -> AnswerTrie:
        """The tree of the answers."""
        return answer_trie(self.completions, self.acting.written if self.acting else None)

    def nodes(self, trie: AnswerTrie) -> Iterator[tuple[int, ...]]:
        """Nodes at which the policy chose a token, for each answer."""
        for index, path in enumerate(trie.paths):
            own = path[:-1]
            yield tuple(compress(own, self.acting.written[index])) if self.acting else own


def groups_schema(*, acting: bool) -> pa.Schema:
    """Columns of groups of answers, or of trajectories."""
    return pa.schema([*GROUPS, *ACTING]) if acting else GROUPS


def schema_like(found: pa.Schema) -> pa.Schema:
    """``groups_schema`` of a table or file with these columns."""
    return groups_schema(acting=ACTING[0].name in found.names)


def groups_table(groups: Sequence[StoredGroup]) -> pa.Table:
    """One row for each group."""
    acting = any(group.acting is not None for group in groups)
    return pa.Table.from_pylist([_row(g) for g in groups], schema=groups_schema(acting=acting))


def groups_of(table: pa.Table) -> Iterator[StoredGroup]:
    """The groups of a table, one by one."""
    for batch in table.to_batches(max_chunksize=_ROWS):
        for row in batch.to_pylist():
            yield _group(row)


def require_whole_distributions(groups: Sequence[StoredGroup]) -> None:
    """Refuse sums over some tokens without the mass of all others: they are not divergences.

    Raises:
        PoolError: a distribution adds up to less or more than float16 can be wrong by.
    """
    for group in groups:
        if not group.logprobs:
            continue
        starts = np.cumsum([0, *map(len, group.logprobs[:-1])])
        mass = np.add.reduceat(np.exp(np.concatenate(group.logprobs)), starts)
        mass += np.exp(group.log_tails)
        worst = int(np.argmax(np.abs(mass - 1)))
        if not abs(mass[worst] - 1) <= MASS_ERROR:
            raise PoolError(
                f"a next-token distribution of the answers to {group.problem.problem_id!r} adds up "
                f"to {mass[worst]:.3f}, not to 1: stored tokens need the mass of all other "
                f"tokens, the tail, as well"
            )


def problems_of(table: pa.Table) -> Iterator[Problem]:
    """The prompts of a table alone."""
    for row in table.select(["problem_id", "prompt", "answer"]).to_pylist():
        yield problem_of_columns(row)


def _row(group: StoredGroup) -> dict[str, Any]:
    return {
        **problem_columns(group.problem),
        "prompt_ids": group.prompt_ids,
        "texts": group.texts,
        "finished": group.finished,
        "completion_ids": group.completions,
        "ref_logprobs": group.ref_logprobs,
        "token_ids": group.token_ids,
        "logprobs": [np.asarray(numbers).astype(np.float16) for numbers in group.logprobs],
        "log_tails": np.asarray(group.log_tails).astype(np.float16),
        **({f.name: getattr(group.acting, f.name) for f in fields(Acting)} if group.acting else {}),
    }


def _group(row: dict[str, Any]) -> StoredGroup:
    return StoredGroup(
        problem=problem_of_columns(row),
        prompt_ids=tuple(row["prompt_ids"]),
        texts=tuple(row["texts"]),
        finished=tuple(row["finished"]),
        completions=tuple(map(tuple, row["completion_ids"])),
        ref_logprobs=tuple(map(tuple, row["ref_logprobs"])),
        token_ids=tuple(map(tuple, row["token_ids"])),
        logprobs=tuple(np.array(numbers, dtype=np.float64) for numbers in row["logprobs"]),
        log_tails=tuple(float(tail) for tail in row["log_tails"]),
        acting=_acting(row) if "written" in row else None,
    )


def _acting(row: dict[str, Any]) -> Acting:
    return Acting(
        written=tuple(map(tuple, row["written"])),
        ends=tuple(row["ends"]),
        rewarded=tuple(row["rewarded"]),
    )
