import pytest

from dph.tasks.styles import SQL_STYLES, sql_style
from lab.worlds.sql.question_sets import gold_sql
from lab.worlds.sql.questions import STYLES, WRITERS, read_correctly, write_answer


def test_the_styles_are_those_that_the_classifier_knows():
    assert STYLES == SQL_STYLES == ("plain", "cte", "nested", "alias", "steps")


@pytest.mark.parametrize("style", STYLES)
def test_every_style_of_a_correct_answer_executes_to_the_gold_result(style, questions, oracles):
    for question in questions:
        sql = WRITERS[style](read_correctly(question))
        if style == "steps":
            sql = sql[sql.index("SELECT") :]
        oracle = oracles[question.domain.name]
        assert oracle(sql) == oracle(gold_sql(question)), sql


@pytest.mark.parametrize("style", STYLES)
def test_the_classifier_recognises_every_answer_with_and_without_its_label(style, questions):
    for question in questions:
        reading = read_correctly(question)
        answer = write_answer(reading, style)
        assert answer.startswith(f"{style}: ")
        assert sql_style(answer) == style
        assert sql_style(WRITERS[style](reading)) == style
