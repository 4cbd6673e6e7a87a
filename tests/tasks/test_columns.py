import json

import pytest

from dph.errors import DataError
from dph.tasks.problems import load_problems, malformed_rows, renamed


def fields(rows, columns):
    return [row for _, row in renamed([(f"row {i}", row) for i, row in enumerate(rows)], columns)]


def test_fields_are_taken_from_the_columns_they_are_called():
    row = {"question": "2 + 2?", "solution": "4", "level": 1}
    columns = {"prompt": "question", "answer": "solution"}
    expected = {"problem_id": 1, "prompt": "2 + 2?", "answer": "4", "level": 1}
    assert fields([row], columns) == [expected]


def test_names_may_be_exchanged_and_one_column_may_serve_twice():
    row = {"problem_id": "a", "prompt": "p", "answer": "q"}
    exchanged = {"problem_id": "a", "prompt": "q", "answer": "p"}
    assert fields([row], {"prompt": "answer", "answer": "prompt"}) == [exchanged]
    assert fields([row], {"answer": "prompt", "prompt": "prompt"})[0]["answer"] == "p"


def test_what_was_called_as_a_field_is_gone_where_another_column_is_named():
    row = {"problem_id": "a", "prompt": "old", "question": "new"}
    assert fields([row], {"prompt": "question"}) == [{"problem_id": "a", "prompt": "new"}]


def test_rows_without_an_id_are_numbered(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"question": q}) + "\n" for q in ("a", "b")))
    problems = load_problems(path, columns={"prompt": "question"})
    assert [(p.problem_id, p.prompt, p.answer) for p in problems] == [
        ("1", "a", {}),
        ("2", "b", {}),
    ]
    with pytest.raises(DataError, match="problem_id must be"):
        load_problems(path)


def test_a_missing_column_is_told_with_those_that_are_there(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"question": "a", "gold": "b"}\n')
    with pytest.raises(
        DataError,
        match=r"line 1: there is no column 'text', .* for prompt; there are: question, gold",
    ):
        load_problems(path, columns={"prompt": "text"})
    assert len(list(malformed_rows(path, columns={"prompt": "text"}))) == 1
