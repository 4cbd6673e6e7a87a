"""Turns and tools of trajectories in the report, by counts that can be redone by hand."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from dph.records import Turn
from dph.results.report.page import turn_facts
from dph.tasks.environments import ToolResult, turns_text

ANSWER, CALL = Turn("", "a"), Turn("", "CALL look()")
FAILED = Turn("look", ToolResult.of_error("look", "no").text)


def row(problem, index, outcome, *turns):
    text = turns_text([*turns, ANSWER])
    names = ("set", "problem_id", "sample_index", "outcome", "text")
    return dict(zip(names, ("dev", problem, index, outcome, text), strict=True))


ROWS = [
    row("p", -1, "CORRECT"),  # the greedy answer
    row("p", 0, "CORRECT", CALL, Turn("look", "hall")),
    row("p", 1, "WRONG"),
    row("q", 0, "CORRECT", CALL, FAILED, CALL, Turn("look", "attic")),
    row("q", 1, "CORRECT", Turn("reset", "Go."), CALL, Turn("error", "{'error': 'no tool'}")),
]


def run(path, rows=ROWS):
    recipe = SimpleNamespace(environment=SimpleNamespace(path=path))
    return SimpleNamespace(
        key="r0",
        label="grpo",
        results=SimpleNamespace(recipe=recipe),
        samples=rows and pa.Table.from_pylist(rows),
        scores={"dev": SimpleNamespace(samples=2)},
    )


def test_pass_at_k_grows_with_the_turns_that_count_and_calls_are_counted_by_tool():
    [facts] = turn_facts([run("shelf:Shelf")])
    assert (facts.label, facts.set_name, facts.k) == ("grpo", "dev", 2)
    assert [(r.turns, r.share, r.right) for r in facts.turns] == [
        (1, 0.25, 0.0),
        (2, 0.5, 1.0),
        (3, 0.25, 1.0),
    ]
    # Pass@2 of two samples is whether one of them is right: none, then both problems.
    assert [r.within for r in facts.turns] == [0.0, 1.0, 1.0]
    told = [(r.tool, r.calls, pytest.approx(r.failed)) for r in facts.tools]
    assert told == [("error", 0.25, 1.0), ("look", 0.75, 1 / 3)]


def test_answers_of_one_turn_have_no_such_table():
    assert turn_facts([run(None), run("shelf:Shelf", None)]) == []
