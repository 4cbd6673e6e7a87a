from dph.tasks.sql.data_sets import load_spider, schemas_of
from dph.tasks.sql.problems import GoldCheck, GoldState, sql_problems
from dph.tasks.sql.prompt import SQLPrompts
from dph.tasks.verifiers import make_verifier
from zoo import write_spider


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
