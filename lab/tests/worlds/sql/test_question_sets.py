"""Only telling questions are kept, each once, without what is forbidden."""

from random import Random

from lab.worlds.sql.question_sets import draw_questions, gold_sql, is_telling
from lab.worlds.sql.questions import OPERATORS, Question, WhereCondition, read, write_plain


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


def test_the_gold_query_of_every_question_returns_something(questions, oracles):
    for question in questions:
        result = oracles[question.domain.name](gold_sql(question))
        assert result
        assert result != {(None,)}


def ask(world, **slots):
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
        question, database = ask(world, conditions=(nothing,), **slots)
        assert not is_telling(question, database, world.annotators)


def test_a_question_that_everybody_gets_right_by_chance_is_refused(world):
    table = world.in_domain[0].domain.first
    everything = WhereCondition(table.numeric[0].term, "at least", "0")
    question, database = ask(world, kind="count", conditions=(everything,))
    assert not is_telling(question, database, world.annotators)


def test_drawing_avoids_taken_prompts_and_forbidden_terms(world, questions):
    forbidden = {world.databases[0].domain.columns[0].term}
    taken = [question.prompt for question in questions]
    drawn = draw_questions(
        world.databases,
        world.annotators,
        100,
        Random(1),
        taken=taken,
        forbidden_terms=forbidden,
    )
    prompts = [question.prompt for question in drawn]
    assert len(set(prompts)) == 100
    assert not set(prompts) & set(taken)
    assert all(forbidden.isdisjoint(question.terms) for question in drawn)
