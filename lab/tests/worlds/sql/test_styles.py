"""The five styles mean the same thing, and each says it its own way."""

from dataclasses import replace

import pytest

from dph.tasks.styles import SQL_STYLES, sql_style
from lab.worlds.sql.question_sets import gold_sql
from lab.worlds.sql.questions import (
    STYLES,
    WRITERS,
    Interpretation,
    read_correctly,
    write_answer,
)

TWO = Interpretation(
    table="singer",
    joined=None,
    shown="fans",
    aggregate=None,
    where=(("age", ">", "20"), ("country", "=", "'Peru'")),
    order=None,
)
JOIN = replace(TWO, joined="concert", where=(("seats", "<", "8"),))
TOP = replace(TWO, where=(), order=("age", "DESC"))
COUNT = replace(TWO, shown=None, where=(("age", ">", "20"),))
MEAN = replace(COUNT, shown="fans", aggregate="avg")

PERU = "age > 20 AND country = 'Peru'"
EXPECTED = {
    "plain": [
        f"SELECT fans FROM singer WHERE {PERU}",
        "SELECT fans FROM singer JOIN concert USING ( key ) WHERE seats < 8",
        "SELECT fans FROM singer ORDER BY age DESC LIMIT 1",
        "SELECT count ( * ) FROM singer WHERE age > 20",
        "SELECT avg ( fans ) FROM singer WHERE age > 20",
    ],
    "cte": [
        f"WITH c AS ( SELECT * FROM singer WHERE {PERU} ) SELECT fans FROM c",
        "WITH c AS ( SELECT * FROM concert WHERE seats < 8 ) "
        "SELECT fans FROM singer JOIN c USING ( key )",
        "WITH c AS ( SELECT * FROM singer ) SELECT fans FROM c ORDER BY age DESC LIMIT 1",
        "WITH c AS ( SELECT * FROM singer WHERE age > 20 ) SELECT count ( * ) FROM c",
        "WITH c AS ( SELECT * FROM singer WHERE age > 20 ) SELECT avg ( fans ) FROM c",
    ],
    "nested": [
        f"SELECT fans FROM ( SELECT * FROM singer WHERE {PERU} )",
        "SELECT fans FROM singer WHERE key IN ( SELECT key FROM concert WHERE seats < 8 )",
        "SELECT fans FROM ( SELECT * FROM singer ORDER BY age DESC LIMIT 1 )",
        "SELECT count ( * ) FROM ( SELECT * FROM singer WHERE age > 20 )",
        "SELECT avg ( fans ) FROM ( SELECT * FROM singer WHERE age > 20 )",
    ],
    "alias": [
        "SELECT p . fans FROM singer AS p WHERE p . age > 20 AND p . country = 'Peru'",
        "SELECT p . fans FROM singer AS p JOIN concert AS q USING ( key ) WHERE q . seats < 8",
        "SELECT p . fans FROM singer AS p ORDER BY p . age DESC LIMIT 1",
        "SELECT count ( * ) FROM singer AS p WHERE p . age > 20",
        "SELECT avg ( p . fans ) FROM singer AS p WHERE p . age > 20",
    ],
    "steps": [
        f"keep age > 20 ; keep country = 'Peru' ; SELECT fans FROM singer WHERE {PERU}",
        "keep seats < 8 ; SELECT fans FROM singer JOIN concert USING ( key ) WHERE seats < 8",
        "sort age DESC ; SELECT fans FROM singer ORDER BY age DESC LIMIT 1",
        "keep age > 20 ; SELECT count ( * ) FROM singer WHERE age > 20",
        "keep age > 20 ; SELECT avg ( fans ) FROM singer WHERE age > 20",
    ],
}


def test_the_styles_are_those_that_the_classifier_knows():
    assert STYLES == SQL_STYLES == ("plain", "cte", "nested", "alias", "steps")


@pytest.mark.parametrize("style", STYLES)
def test_a_style_writes_each_form_of_query_its_own_way(style):
    written = [WRITERS[style](reading) for reading in (TWO, JOIN, TOP, COUNT, MEAN)]
    assert written == EXPECTED[style]


def test_an_answer_starts_with_the_label_of_its_style():
    assert write_answer(COUNT, "plain") == "plain: SELECT count ( * ) FROM singer WHERE age > 20"


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
        assert sql_style(write_answer(reading, style)) == style
        assert sql_style(WRITERS[style](reading)) == style
