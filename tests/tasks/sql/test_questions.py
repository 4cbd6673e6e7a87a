import json

import pytest

from dph.errors import DataError
from dph.tasks.sql.data_sets import published_rows, require_layout, to_questions

ROW = {"db_id": "zoo", "question": "How many?", "query": "SELECT 1"}


def write(tmp_path, rows):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(rows))
    return path


def questions(path):
    return to_questions(path, prefix="p", gold_field="query", number_field="id")


def test_ids_are_the_files_own_numbers_or_positions(tmp_path):
    found = questions(write(tmp_path, [ROW, ROW | {"id": 7}]))
    assert [question.question_id for question in found] == ["p-0", "p-7"]


@pytest.mark.parametrize("field", ["db_id", "question", "query"])
@pytest.mark.parametrize("value", [None, "", " ", 3])
def test_a_row_without_a_field_is_named(tmp_path, field, value):
    path = write(tmp_path, [ROW, ROW | {field: value}])
    with pytest.raises(DataError, match=f"question 1: '{field}' must be text"):
        questions(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW | {"id": 3}, ROW | {"id": 3}], "question 1: id 3 was used before"),
        ([ROW | {"db_id": "../zoo"}], "'db_id' must be the name of a database, got '../zoo'"),
        ([ROW | {"evidence": 5}], "'evidence' must be text, got 5"),
        ([], "does not hold a list of questions"),
    ],
)
def test_what_would_fail_later_is_named_at_once(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        questions(write(tmp_path, rows))


@pytest.mark.parametrize("evidence", [None, ""])
def test_a_question_may_have_no_evidence(tmp_path, evidence):
    (question,) = questions(write(tmp_path, [ROW | {"evidence": evidence}]))
    assert question.evidence == ""


def test_what_holds_no_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match="list of questions"):
        published_rows(write(tmp_path, {"a": 1}))
    (tmp_path / "dev.parquet").write_text("no")
    with pytest.raises(DataError, match="not a parquet file"):
        published_rows(tmp_path / "dev.parquet")


def test_a_directory_of_another_layout_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no questions: looked for a, b"):
        require_layout(tmp_path, ("a", "b"), "questions")
    with pytest.raises(DataError, match="there is no directory"):
        require_layout(tmp_path / "gone", ("a",), "questions")
