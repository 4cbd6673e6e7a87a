"""Which questions are for what: databases of three kinds, and queries that are in one set only.

*Trained* databases: the base model learns some of their queries, RL others, tests have others again
(``in_domain``). *Others*: the base model learns some of their queries, RL none (``cross_domain``).
*Unseen*: Spider's own dev databases, of which nobody learns anything (``unseen``). A query that two
questions ask in different words is in one set, with both.
"""

from collections.abc import Mapping, Sequence
from random import Random

from lab.benchmarks.natural_world.questions import Question
from lab.worlds.world import PARTS

TRAINED: Mapping[str, float] = {"base": 0.6, "train": 0.2, "in_domain": 0.12, PARTS[0]: 0.08}
"""Shares of the queries of a trained database; the last are asked without answers."""
OTHERS: Mapping[str, float] = {"base": 0.75, "cross_domain": 0.12, PARTS[1]: 0.13}
"""Shares of the queries of the other databases."""
EVALUATED = ("in_domain", "cross_domain", "unseen")
LARGEST_SET = 150
"""Questions of an evaluation set."""


def draw_sets(
    questions: Sequence[Question], *, seed: int, largest: int = LARGEST_SET
) -> dict[str, list[Question]]:
    """Questions by set: base, train, the parts without answers, and those of ``EVALUATED``."""
    rng = Random(f"natural world {seed}")
    sets: dict[str, list[Question]] = {name: [] for name in (*TRAINED, *OTHERS, "unseen")}
    known = sorted({q.db_id for q in questions if q.split == "train"})
    rng.shuffle(known)
    trained = set(known[: (len(known) + 1) // 2])
    by_query: dict[tuple[str, str], list[Question]] = {}
    for question in questions:
        if question.split == "train":
            by_query.setdefault(question.query, []).append(question)
        else:
            sets["unseen"].append(question)
    for db_id in known:
        queries = sorted(query for query in by_query if query[0] == db_id)
        rng.shuffle(queries)
        names = _dealt(len(queries), TRAINED if db_id in trained else OTHERS)
        for name, query in zip(names, queries, strict=True):
            sets[name] += by_query[query]
    for name in EVALUATED:
        sets[name] = rng.sample(sets[name], min(largest, len(sets[name])))
    return sets


def _dealt(count: int, shares: Mapping[str, float]) -> list[str]:
    """The set of each of ``count`` queries: as many as the shares say, rounded at the borders."""
    names: list[str] = []
    total = 0.0
    for name, share in shares.items():
        total += share
        names += [name] * (round(count * total) - len(names))
    return names
