"""The rows of a world's files."""

import json

from dph._base.files import write_json_lines
from lab.worlds.sql.question_sets import gold_sql
from lab.worlds.sql.sums import Sum
from lab.worlds.sql.world import sql_row, sum_row, unlabelled_row


def test_a_question_without_its_answer_is_the_row_with_it_and_less(world, questions):
    paths = {database.name: database.relative_path for database in world.databases}
    for question in questions[:20]:
        row = sql_row("q-1", question, paths)
        bare = unlabelled_row("q-1", question, paths, part="others")
        assert row["gold_sql"] == gold_sql(question)
        assert bare.pop("part") == "others"
        assert bare == {key: row[key] for key in ("problem_id", "prompt", "database", "db_id")}


def test_a_sum_has_its_number_as_text():
    assert sum_row("s", Sum(4, "got", 3))["answer"] == "7"


def test_a_file_is_a_row_a_line_as_it_is_written(tmp_path):
    rows = [{"a": 1}, {"b": "\u00e9"}]
    write_json_lines(tmp_path / "rows.jsonl", rows, ascii_only=False)
    text = (tmp_path / "rows.jsonl").read_text("utf-8")
    assert text == '{"a": 1}\n{"b": "\u00e9"}\n'
    assert [json.loads(line) for line in text.splitlines()] == rows
