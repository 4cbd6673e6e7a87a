from random import Random

import pytest

from dph.tasks.styles import SQL_STYLES, sql_style
from lab.worlds.sql.domains import DOMAINS
from lab.worlds.sql.question_sets import draw_questions, gold_sql, is_telling
from lab.worlds.sql.questions import (
    CONFUSED_OPERATORS,
    KINDS,
    OPERATORS,
    STYLES,
    WRITERS,
    Question,
    WhereCondition,
    draw_question,
    read,
    read_correctly,
    write_answer,
    write_plain,
)

MUSIC = next(domain for domain in DOMAINS if domain.name == "music")
ABOVE = WhereCondition("seniority", "above", "20")


def ask(kind, **slots):
    return Question(domain=MUSIC, kind=kind, table="singer", **slots)


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


def test_a_wrong_belief_about_any_term_changes_the_answer(questions, oracles, world):
    for question in questions:
        oracle = oracles[question.domain.name]
        columns = {column.term: column.name for column in question.domain.columns}
        operators = tuple(OPERATORS[phrase] for phrase in question.phrases)
        for annotator in world.annotators:
            for term in question.terms:
                mistaken = {**columns, term: annotator.beliefs[term].mistaken}
                wrong = write_plain(read(question, mistaken, operators))
                assert oracle(wrong) != oracle(gold_sql(question))


def ask_in(world, **slots):
    database = world.in_domain[0]
    table = database.domain.first
    return Question(domain=database.domain, table=table.name, **slots), database


def test_a_question_without_an_answer_is_refused(world):
    table = world.in_domain[0].domain.first
    nothing = WhereCondition(table.numeric[0].term, "above", "999")
    for slots in (
        {"kind": "list", "shown": table.numeric[1].term},
        {"kind": "aggregate", "shown": table.numeric[1].term, "aggregate": "total"},
    ):
        question, database = ask_in(world, conditions=(nothing,), **slots)
        assert not is_telling(question, database, world.annotators)


def test_a_question_that_everybody_gets_right_by_chance_is_refused(world):
    table = world.in_domain[0].domain.first
    everything = WhereCondition(table.numeric[0].term, "at least", "0")
    question, database = ask_in(world, kind="count", conditions=(everything,))
    assert not is_telling(question, database, world.annotators)


def test_drawing_avoids_taken_prompts_and_forbidden_terms(world, questions):
    forbidden = {world.databases[0].domain.columns[0].term}
    taken = [question.prompt for question in questions]
    drawn = draw_questions(
        world.databases, world.annotators, 100, Random(1), taken=taken, forbidden_terms=forbidden
    )
    prompts = [question.prompt for question in drawn]
    assert len(set(prompts)) == 100
    assert not set(prompts) & set(taken)
    assert all(forbidden.isdisjoint(question.terms) for question in drawn)


def test_the_styles_are_those_that_the_classifier_knows():
    assert STYLES == SQL_STYLES == ("plain", "cte", "nested", "alias", "steps")


@pytest.mark.parametrize("style", STYLES)
def test_the_classifier_recognises_every_answer_with_and_without_its_label(style, questions):
    for question in questions:
        reading = read_correctly(question)
        answer = write_answer(reading, style)
        assert answer.startswith(f"{style}: ")
        assert sql_style(answer) == style
        assert sql_style(WRITERS[style](reading)) == style
