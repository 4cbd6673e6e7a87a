from collections import Counter

import pyarrow.parquet as pq
import pytest

from dph._processes.workers.pool import Reply, ReplyKind
from dph.tasks.sql.data_sets import SQLQuestion, load_spider, schemas_of
from dph.tasks.sql.problems import (
    GoldCheck,
    GoldChecker,
    GoldState,
    make_gold_runner,
    sql_problems,
    state_of,
)
from dph.tasks.sql.prompt import SQLPrompts
from dph.tasks.verifiers import make_verifier
from shared_data import shared_data
from zoo import QUESTIONS, write_database, write_spider

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


def test_a_worker_that_dies_costs_one_query_its_state_and_one_that_was_killed_took_too_long(
    tmp_path, monkeypatch
):
    with GoldChecker(databases=tmp_path) as checker:
        monkeypatch.setattr(
            checker._pool, "run", lambda _: [Reply(ReplyKind.CRASHED, reason="the worker died")]
        )
        (check,) = checker.check(ask("SELECT 1"))
    assert (check.state, check.reason) == (GoldState.FAILED, "the worker died")
    with GoldChecker(databases=tmp_path) as checker:
        monkeypatch.setattr(checker._pool, "run", lambda _: [Reply(ReplyKind.TIMED_OUT)])
        (check,) = checker.check(ask("SELECT 1"))
    assert check.state is GoldState.TIMED_OUT


def test_the_trivial_results_of_spider_are_found():
    spider = shared_data("spider")
    trivial = pq.read_table(spider / "train.parquet")["trivial_result"].to_pylist()
    with GoldChecker(databases=spider / "database", workers=2) as checker:
        checks = checker.check(load_spider(spider, "train").questions)
    assert [check.state is not GoldState.TELLING for check in checks] == trivial
    counts = Counter(check.state for check in checks)
    assert (counts[GoldState.EMPTY], counts[GoldState.NULL_OR_ZERO]) == (142, 49)
    assert counts[GoldState.TELLING] == 5286


def test_a_handler_takes_its_limits_from_the_options(tmp_path, monkeypatch):
    monkeypatch.setattr("dph.tasks.sql.problems.limit_memory", lambda _: None)
    run = make_gold_runner({"rows": 1})
    request = {"database": str(write_database(tmp_path)), "sql": "SELECT id FROM animal"}
    assert run(request, print) == [GoldState.FAILED, "more than 1 rows"]
    assert run(request | {"sql": "SELECT 1"}, print) == [GoldState.TELLING, ""]
    assert run(request | {"database": "gone"}, print)[0] is GoldState.NO_DATABASE


def make(tmp_path, states=None):
    source = load_spider(write_spider(tmp_path), "dev")
    prompts = SQLPrompts(databases=source.databases, schemas=schemas_of(source.tables))
    checks = None if states is None else [GoldCheck(state=state, reason="r") for state in states]
    return sql_problems(source.questions, prompts=prompts, checks=checks)


def test_without_checks_every_question_is_kept(tmp_path):
    made = make(tmp_path)
    assert [problem.problem_id for problem in made.problems] == [
        f"spider-dev-{i}" for i in range(4)
    ]
    assert made.counts() == {}


def test_a_question_that_tells_nothing_is_dropped_with_its_reason(tmp_path):
    empty, failed = GoldState.EMPTY, GoldState.FAILED
    made = make(tmp_path, [GoldState.TELLING, empty, failed, empty])
    assert [problem.problem_id for problem in made.problems] == ["spider-dev-0"]
    assert made.counts() == {"no rows": 2, "does not run": 1}
    assert (made.dropped[1].problem_id, made.dropped[1].reason) == ("spider-dev-2", "r")


def test_the_sql_verifier_grades_the_problems(tmp_path):
    problem = make(tmp_path).problems[0]
    assert problem.answer["db_id"] == "zoo"
    assert "evidence" not in problem.answer
    with make_verifier("sql", databases=tmp_path / "database") as verifier:
        right, wrong = verifier.grade(
            [problem] * 2, ["```sql\nSELECT 2\n```", "```sql\nSELECT 3\n```"]
        )
    assert (right.reward, wrong.reward) == (1.0, 0.0)
