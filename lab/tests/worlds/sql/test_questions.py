"""Questions say what they mean: text, terms and readings agree."""

from random import Random

import pytest

from lab.worlds.sql.domains import DOMAINS
from lab.worlds.sql.questions import (
    CONFUSED_OPERATORS,
    KINDS,
    OPERATORS,
    Interpretation,
    Question,
    WhereCondition,
    draw_question,
    read,
    read_correctly,
)

MUSIC = next(domain for domain in DOMAINS if domain.name == "music")
ABOVE = WhereCondition("seniority", "above", "20")


def ask(kind, **slots):
    return Question(domain=MUSIC, kind=kind, table="singer", **slots)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (
            ask("list", shown="fame", conditions=(ABOVE,)),
            "show fame of singer with seniority above 20",
        ),
        (ask("count", conditions=(ABOVE,)), "how many singer with seniority above 20"),
        (
            ask("aggregate", shown="fame", aggregate="average", conditions=(ABOVE,)),
            "average fame of singer with seniority above 20",
        ),
        (
            ask("superlative", shown="fame", superlative=("lowest", "output")),
            "show fame of singer with lowest output",
        ),
        (
            ask(
                "join",
                shown="fame",
                joined="concert",
                conditions=(WhereCondition("room", "at most", "8"),),
            ),
            "show fame of singer whose concert has room at most 8",
        ),
        (
            ask(
                "two_conditions",
                shown="fame",
                conditions=(ABOVE, WhereCondition("homeland", "is", "'Peru'")),
            ),
            "show fame of singer with seniority above 20 and homeland is 'Peru'",
        ),
    ],
    ids=KINDS,
)
def test_each_kind_of_question_reads_as_expected(question, text):
    assert question.text == text
    assert question.prompt == f"{MUSIC.schema} | {text} ->"


def test_a_term_that_occurs_twice_is_listed_once():
    question = ask("list", shown="seniority", conditions=(ABOVE,))
    assert question.terms == ("seniority",)


def test_the_correct_reading_uses_the_schemas_names_and_operators():
    question = ask("aggregate", shown="fame", aggregate="average", conditions=(ABOVE,))
    assert read_correctly(question) == Interpretation(
        table="singer",
        joined=None,
        shown="fans",
        aggregate="avg",
        where=(("age", ">", "20"),),
        order=None,
    )


def test_a_reading_follows_the_beliefs_it_is_given():
    question = ask("superlative", shown="fame", superlative=("highest", "output"))
    reading = read(question, {"fame": "age", "output": "fans"}, ("ASC",))
    assert (reading.shown, reading.order, reading.where) == ("age", ("fans", "ASC"), ())


def test_every_phrase_but_equality_has_a_different_confusion():
    same = {phrase for phrase in OPERATORS if OPERATORS[phrase] == CONFUSED_OPERATORS[phrase]}
    assert same == {"is"}
    assert OPERATORS.keys() == CONFUSED_OPERATORS.keys()


def test_drawn_questions_cover_every_kind_and_never_filter_on_what_they_show():
    rng = Random(0)
    drawn = [draw_question(MUSIC, rng) for _ in range(400)]
    assert {question.kind for question in drawn} == set(KINDS)
    assert all(
        question.shown != question.conditions[0].term for question in drawn if question.conditions
    )
    known = {column.term for column in MUSIC.columns}
    assert all(known.issuperset(question.terms) for question in drawn)
