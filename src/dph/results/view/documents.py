"""Documents for the browser, as JSON. Names in an address are looked up in tables.

None: there is no such thing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dph.records import Outcome
from dph.results.report.answers import EqualAnswers, equal_answers, token_detail
from dph.results.report.page import run_index
from dph.results.view.served_runs import ServedRuns
from dph.results.view.set_index import MOST, SetIndex, number_of, query_of
from dph.results.view.snapshot import Snapshot
from dph.tasks.problems import prompt_text

Words = Mapping[str, str]

LONGEST = 50_000
"""Characters of a text that come with a problem; a click brings the whole."""
ANSWERS = 100
"""Different answers of a run to a problem that come at once; a click brings as many more."""


def index_document(served: ServedRuns) -> dict[str, Any]:
    """Runs, charts, and what problems can be filtered by."""
    snapshot = served.snapshot
    runs = [run for of in snapshot.sets.values() for run in of.runs.values()]
    seen = {name for run in runs for name in run.counts.outcomes}
    styles = dict.fromkeys(name for run in runs for name in run.counts.styles)
    return {
        "runs": run_index(snapshot.runs),
        "charts": served.charts(),
        "sets": [
            {"set": name, "size": len(of.ids), "runs": {key: {} for key in of.runs}}
            for name, of in snapshot.sets.items()
        ],
        "outcomes": list(Outcome),
        "seen": [outcome.value for outcome in Outcome if outcome in seen],
        "styles": list(styles),
        "state": served.state(),
    }


def problems_document(served: ServedRuns, words: Words) -> dict[str, Any] | None:
    """Lines ``first`` to ``first + count`` of the list of problems that pass a filter."""
    snapshot = served.snapshot
    query = query_of(words)
    of = snapshot.sets.get(query.set)
    if of is None:
        return None
    first = max(0, number_of(words, "first"))
    count = min(MOST, max(0, number_of(words, "count", MOST)))
    places = of.places(query, snapshot.texts.having(query))
    lines = [of.line(int(place)) for place in places[first : first + count]]
    return {"count": len(places), "problems": lines}


def problem_document(served: ServedRuns, words: Words) -> dict[str, Any] | None:
    """A problem with the answers of every run, and its neighbours in the list."""
    snapshot = served.snapshot
    query = query_of(words)
    of = snapshot.sets.get(query.set)
    place = None if of is None else of.place.get(words.get("id", ""))
    if of is None or place is None:
        return None
    listed = of.places(query, snapshot.texts.having(query))
    here = np.flatnonzero(listed == place)
    around, at = (listed, int(here[0])) if len(here) else (np.arange(len(of.ids)), place)
    problem_id = of.ids[place]
    return {
        "listed": of.line(place),
        "problem": _problem(of, problem_id),
        "runs": {key: _answers(snapshot, of, key, place, 0) for key in of.runs},
        "at": at,
        "of": len(around),
        "previous": of.ids[int(around[at - 1])] if at else None,
        "next": of.ids[int(around[at + 1])] if at + 1 < len(around) else None,
    }


def answers_document(served: ServedRuns, words: Words) -> list[dict[str, Any]] | None:
    """Further answers of a run to a problem, from the ``first``-th different one on."""
    found = _run_of(served.snapshot, words)
    if found is None:
        return None
    of, key, place = found
    first = max(0, number_of(words, "first"))
    answers: list[dict[str, Any]] = _answers(served.snapshot, of, key, place, first)["answers"]
    return answers


def text_document(served: ServedRuns, words: Words) -> str | None:
    """The whole text of one answer."""
    found = _run_of(served.snapshot, words)
    if found is None:
        return None
    sample = number_of(words, "sample")
    rows = _rows(served.snapshot, *found)
    return next((str(row["text"]) for row in rows if row["sample_index"] == sample), None)


def _run_of(snapshot: Snapshot, words: Words) -> tuple[SetIndex, str, int] | None:
    of = snapshot.sets.get(words.get("set", ""))
    key, problem_id = words.get("run", ""), words.get("id", "")
    if of is None or key not in of.runs or problem_id not in of.place:
        return None
    return of, key, of.place[problem_id]


def _problem(of: SetIndex, problem_id: str) -> dict[str, Any]:
    problem = of.problems.get(problem_id)
    if problem is None:
        return {"prompt": None, "fields": {}}
    return {"prompt": prompt_text(problem), "fields": dict(problem.answer)}


def _rows(snapshot: Snapshot, of: SetIndex, key: str, place: int) -> list[Mapping[str, Any]]:
    run = of.runs[key]
    at = int(run.at[place])
    if at < 0:
        return []
    return snapshot.samples[key].rows(int(run.counts.first[at]), int(run.counts.rows[at]))


def _answers(snapshot: Snapshot, of: SetIndex, key: str, place: int, first: int) -> dict[str, Any]:
    ranked = equal_answers(_rows(snapshot, of, key, place))
    details = _details(snapshot, key, of.name, of.ids[place])
    shown = ranked[first : first + ANSWERS]
    return {"different": len(ranked), "answers": [_answer(one, details) for one in shown]}


def _answer(one: EqualAnswers, details: Mapping[int, Any]) -> dict[str, Any]:
    detail = next((details[sample] for sample in one.samples if sample in details), None)
    return {
        "text": one.text[:LONGEST],
        "length": len(one.text),
        "outcome": one.outcome,
        "reason": one.reason[:LONGEST],
        "style": one.style,
        "reward": one.reward,
        "tokens": one.tokens,
        "cut": not one.finished,
        "samples": one.samples,
        "detail": detail,
    }


def _details(snapshot: Snapshot, key: str, name: str, problem_id: str) -> dict[int, Any]:
    """Tokens of a run's answers to a problem, by sample."""
    if key not in snapshot.tokens:
        return {}
    file, places = snapshot.tokens[key]
    if (name, problem_id) not in places:
        return {}
    rows = file.rows(*places[name, problem_id])
    return {row["sample_index"]: token_detail(row) for row in rows}
