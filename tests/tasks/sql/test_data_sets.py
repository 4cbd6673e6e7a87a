import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError, SettingsError
from dph.tasks.sql.data_sets import (
    GoldCheck,
    GoldChecker,
    GoldState,
    SQLQuestion,
    load_bird,
    load_spider,
    published_rows,
    read_schema_rows,
    require_layout,
    schemas_of,
    sql_problems,
    state_of,
    to_questions,
)
from dph.tasks.sql.prompt import SQLPrompts
from dph.tasks.verifiers import make_verifier
from shared_data import shared_data
from zoo import QUESTIONS, write_bird, write_database, write_spider


def test_the_official_layout_of_spider_with_its_other_training_questions(tmp_path):
    source = load_spider(write_spider(tmp_path), "train")
    assert [(q.question, q.gold_sql) for q in source.questions] == QUESTIONS
    assert source.questions[3].question_id == "spider-train-3"
    (tmp_path / "train_others.json").unlink()
    assert len(load_spider(tmp_path, "train").questions) == 3
    dev = load_spider(tmp_path, "dev")
    assert [(q.question, q.gold_sql) for q in dev.questions] == QUESTIONS
    assert dev.questions[0].question_id == "spider-dev-0"
    assert (dev.databases, dev.tables) == (tmp_path / "database", tmp_path / "tables.json")


def test_the_parquet_layouts_keep_positions_and_have_schemas():
    source = load_spider(shared_data("spider"), "train")
    assert len(source.questions) == 5477
    assert len({question.question_id for question in source.questions}) == 5477
    assert len(load_spider(shared_data("spider"), "dev").questions) == 1034
    source = load_bird(shared_data("bird"), "dev")
    assert len(source.questions) == 1534
    assert source.databases is None
    assert len(load_bird(shared_data("bird"), "mini-dev").questions) == 500
    schemas = read_schema_rows(source.tables)
    assert {question.db_id for question in source.questions} == set(schemas)
    assert len(schemas) == 11


def test_the_official_layout_of_bird(tmp_path):
    source = load_bird(write_bird(tmp_path), "dev")
    first = source.questions[0]
    assert first.question_id == "bird-dev-10"
    assert first.gold_sql == "SELECT count(*) FROM animal WHERE kind = 'lion'"
    assert (first.evidence, first.difficulty) == ("lions are kind = 'lion'", "simple")
    assert source.databases == tmp_path / "dev_databases"
    assert source.tables == tmp_path / "dev_tables.json"
    source = load_bird(tmp_path, "mini-dev")
    assert [question.question_id for question in source.questions] == ["bird-mini-dev-10"]


def test_there_is_no_other_split(tmp_path):
    with pytest.raises(SettingsError, match="mini-dev, got 'test'"):
        load_bird(tmp_path, "test")
    with pytest.raises(SettingsError, match=r"train, dev, got 'test'"):
        load_spider(tmp_path, "test")


NAMES = ("db_id", "table", "position", "column", "type", "primary_key", "value_samples")
MORE = {"foreign_keys": '[{"target_table": "s", "target_column": null}]', "description": None}
COLUMNS = [
    dict(zip(NAMES, ("d", "t", 1, "a", "TEXT", False, '["x", "y", "z"]'), strict=True)) | MORE,
    dict(zip(NAMES, ("d", "t", 0, "id", "INTEGER", True, None), strict=True))
    | {"foreign_keys": None, "description": "number"},
    {"db_id": "d", "table": "sqlite_sequence"},
]


def test_a_schema_by_columns_has_keys_and_two_values_and_another_table_is_refused(tmp_path):
    path = tmp_path / "dev_schema.parquet"
    pq.write_table(pa.Table.from_pylist(COLUMNS), path)
    (table,) = read_schema_rows(path)["d"].tables
    assert [column.name for column in table.columns] == ["id", "a"]
    assert table.columns[1].values == ("x", "y")
    assert table.primary_key == ("id",)
    assert table.foreign_keys[0].target_column == "a"
    pq.write_table(pa.table({"db_id": ["d"]}), path)
    with pytest.raises(DataError, match="not a table of columns"):
        read_schema_rows(path)


def test_schemas_come_from_json_or_parquet_or_not_at_all(tmp_path):
    write_spider(tmp_path)
    assert set(schemas_of(tmp_path / "tables.json")) == {"zoo"}
    assert schemas_of(None) == {}
    assert len(schemas_of(shared_data("bird") / "dev_schema.parquet")) == 11


ROW = {"db_id": "zoo", "question": "How many?", "query": "SELECT 1"}


def write_questions(tmp_path, rows):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(rows))
    return path


def questions(path):
    return to_questions(path, prefix="p", gold_field="query", number_field="id")


def test_ids_are_the_files_own_numbers_or_positions(tmp_path):
    found = questions(write_questions(tmp_path, [ROW, ROW | {"id": 7}]))
    assert [question.question_id for question in found] == ["p-0", "p-7"]
    for nothing in (None, ""):
        (question,) = questions(write_questions(tmp_path, [ROW | {"evidence": nothing}]))
        assert question.evidence == ""


@pytest.mark.parametrize("field", ["db_id", "question", "query"])
@pytest.mark.parametrize("value", [None, "", " ", 3])
def test_a_row_without_a_field_is_named(tmp_path, field, value):
    path = write_questions(tmp_path, [ROW, ROW | {field: value}])
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
        questions(write_questions(tmp_path, rows))


def test_what_holds_no_rows_or_has_another_layout_is_refused(tmp_path):
    with pytest.raises(DataError, match="list of questions"):
        published_rows(write_questions(tmp_path, {"a": 1}))
    (tmp_path / "dev.parquet").write_text("no")
    with pytest.raises(DataError, match="not a parquet file"):
        published_rows(tmp_path / "dev.parquet")
    with pytest.raises(DataError, match="holds no questions: looked for a, b"):
        require_layout(tmp_path, ("a", "b"), "questions")
    with pytest.raises(DataError, match="there is no directory"):
        require_layout(tmp_path / "gone", ("a",), "questions")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def ask(*golds, db_id="zoo"):
    return [
        SQLQuestion(question_id=str(i), db_id=db_id, question="?", gold_sql=gold)
        for i, gold in enumerate(golds)
    ]


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([], GoldState.EMPTY),
        ([(0,)], GoldState.NULL_OR_ZERO),
        ([(None,), (0.0,)], GoldState.NULL_OR_ZERO),
        ([(0, 1)], GoldState.TELLING),
        ([("0",)], GoldState.TELLING),
        ([("",)], GoldState.TELLING),
    ],
)
def test_a_result_tells_something_if_it_holds_more_than_null_and_0(rows, state):
    assert state_of(rows) is state


def test_each_query_gets_its_state_and_an_endless_one_costs_only_itself(tmp_path):
    write_database(tmp_path)
    heard = []
    with GoldChecker(databases=tmp_path, timeout=0.3) as checker:
        checks = checker.check(
            ask(*(sql for _, sql in QUESTIONS), ENDLESS, "SELECT 1"), on_done=heard.append
        )
        missing = checker.check(ask("SELECT 1", db_id="gone"))
    assert [check.state.name for check in checks] == [
        *("TELLING", "EMPTY", "NULL_OR_ZERO", "FAILED", "TIMED_OUT", "TELLING")
    ]
    assert "nothing" in checks[3].reason
    assert missing[0].state is GoldState.NO_DATABASE
    assert sum(heard) == 6


@pytest.mark.slow
def test_the_trivial_results_of_spider_are_found():
    spider = shared_data("spider")
    trivial = pq.read_table(spider / "train.parquet")["trivial_result"].to_pylist()
    with GoldChecker(databases=spider / "database", workers=2) as checker:
        checks = checker.check(load_spider(spider, "train").questions)
    assert [check.state is not GoldState.TELLING for check in checks] == trivial
    counts = Counter(check.state for check in checks)
    assert (counts[GoldState.EMPTY], counts[GoldState.NULL_OR_ZERO]) == (142, 49)
    assert counts[GoldState.TELLING] == 5286


def make_problems(tmp_path, states=None):
    source = load_spider(write_spider(tmp_path), "dev")
    prompts = SQLPrompts(databases=source.databases, schemas=schemas_of(source.tables))
    checks = None if states is None else [GoldCheck(state=state, reason="r") for state in states]
    return sql_problems(source.questions, prompts=prompts, checks=checks)


def test_without_checks_every_question_is_kept_and_graded_by_the_verifier(tmp_path):
    made = make_problems(tmp_path)
    assert [problem.problem_id for problem in made.problems] == [
        f"spider-dev-{i}" for i in range(4)
    ]
    assert made.counts() == {}
    problem = made.problems[0]
    assert problem.answer["db_id"] == "zoo"
    assert "evidence" not in problem.answer
    with make_verifier("sql", databases=tmp_path / "database") as verifier:
        right, wrong = verifier.grade(
            [problem] * 2, ["```sql\nSELECT 2\n```", "```sql\nSELECT 3\n```"]
        )
    assert (right.reward, wrong.reward) == (1.0, 0.0)


def test_a_question_that_tells_nothing_is_dropped_with_its_reason(tmp_path):
    empty, failed = GoldState.EMPTY, GoldState.FAILED
    made = make_problems(tmp_path, [GoldState.TELLING, empty, failed, empty])
    assert [problem.problem_id for problem in made.problems] == ["spider-dev-0"]
    assert made.counts() == {"no rows": 2, "does not run": 1}
    assert (made.dropped[1].problem_id, made.dropped[1].reason) == ("spider-dev-2", "r")
