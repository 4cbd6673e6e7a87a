"""The lists of the server against the same filters written out for one problem at a time."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dph.records import Problem
from dph.results.view.set_index import AnswerCounts, ProblemQuery, SetIndex

CHANGES = ("lost", "kept", "")


def counts(ids, seed):
    rng = np.random.default_rng(seed)
    n = len(ids)
    samples = rng.choice([0, 4, 8], n)
    return AnswerCounts(
        ids=list(ids),
        first=np.arange(n) * 9,
        rows=np.full(n, 9),
        samples=samples,
        correct=rng.integers(0, samples + 1),
        greedy=rng.integers(-1, 2, n),
        outcomes={"CORRECT": rng.random(n) < 0.5, "WRONG": rng.random(n) < 0.7},
        styles={"cte": rng.random(n) < 0.3},
    )


@pytest.fixture(scope="module")
def index():
    ids = [f"q-{i}" for i in range(30)]
    problems = {one: Problem(problem_id=one, prompt=f"{one} ?", answer={}) for one in ids}
    made = SetIndex("dev", {"r0": counts(ids[:20], 0), "r1": counts(ids[10:], 1)}, problems)
    made.take_changes({"r1": {one: CHANGES[i % 3] for i, one in enumerate(ids)}})
    return made


def passes(index, key, place, query):
    """What browser/listed.js says of a run's answers to a problem."""
    line, run = index.line(place)["runs"][key], index.runs[key]
    at = int(run.at[place])
    if query.change and line["change"] != query.change:
        return False
    for name, of in ((query.outcome, run.counts.outcomes), (query.style, run.counts.styles)):
        if name and not (at >= 0 and name in of and of[name][at]):
            return False
    least = query.least is None or line["correct"] >= query.least
    return least and (query.most is None or line["correct"] <= query.most)


def test_a_filter_holds_where_one_run_fulfils_all_of_it(index):
    base = ProblemQuery(set="dev", shown=("r0", "r1"))
    for change, outcome, style, least, run in product(
        ("", "lost", "kept"), ("", "WRONG", "CRASHED"), ("", "cte"), (None, 0, 3), ("", "r1", "r9")
    ):
        query = replace(base, change=change, outcome=outcome, style=style, least=least, run=run)
        keys = [run] if run else ["r0", "r1"]
        there = [key for key in keys if key in index.runs]
        wanted = [
            place
            for place in range(len(index.ids))
            if not query.asks_runs or any(passes(index, key, place, query) for key in there)
        ]
        assert index.places(query, None).tolist() == wanted, query


def test_runs_that_are_switched_off_fulfil_nothing(index):
    query = ProblemQuery(set="dev", shown=("r0",), change="lost")
    assert index.places(query, None).tolist() == []


def test_only_what_the_search_found_is_listed(index):
    found = np.arange(30) % 2 == 0
    query = ProblemQuery(set="dev", shown=("r0", "r1"), down=True)
    assert index.places(query, found).tolist() == list(range(28, -1, -2))


def test_numbers_in_ids_are_sorted_as_numbers_however_long():
    ids = ["q-10", "q-9", "a", "q-09b", "9" * 5000, "Q-1"]
    made = SetIndex("dev", {"r0": counts(ids, 0)}, {})
    listed = [made.ids[i] for i in made.places(ProblemQuery(set="dev", shown=(), sort="id"), None)]
    assert listed == ["9" * 5000, "a", "Q-1", "q-9", "q-09b", "q-10"]


def test_shares_and_their_spread_sort_and_equal_ones_keep_their_order(index):
    def share(place, key):
        line = index.line(place)["runs"][key]
        return line["correct"] / line["samples"] if line["samples"] else -1.0

    def spread(place):
        known = [s for key in ("r0", "r1") if (s := share(place, key)) >= 0]
        return max(known) - min(known) if known else -1.0

    for sort, value in (("r0", lambda place: share(place, "r0")), ("spread", spread)):
        for down in (False, True):
            query = ProblemQuery(set="dev", shown=("r0", "r1"), sort=sort, down=down)
            sign = -1 if down else 1
            wanted = sorted(range(30), key=lambda p: (sign * value(p), p))
            assert index.places(query, None).tolist() == wanted
