from collections import Counter
from random import Random

import pytest

from lab.worlds.sql.annotators import (
    RIGHT_IF_KNOWN,
    WRONG_IF_UNKNOWN,
    Annotator,
    Belief,
    draw_knowledge,
)
from lab.worlds.sql.domains import DOMAINS, draw_database
from lab.worlds.sql.questions import OPERATORS, STYLES, Question, WhereCondition

BLANK = [draw_database(domain, Random(0)) for domain in DOMAINS]
MUSIC = next(domain for domain in DOMAINS if domain.name == "music")
COUNT = Question(
    domain=MUSIC,
    kind="count",
    table="singer",
    conditions=(WhereCondition("seniority", "above", "20"),),
)


def sides(seed):
    """Three in-domain and three cross-domain databases; their rows play no part here."""
    chosen = Random(seed).sample(BLANK, 6)
    return chosen[:3], chosen[3:]


def terms_of(databases):
    return {column.term for database in databases for column in database.domain.columns}


def knowers(knowledge, term):
    return sum(annotator.beliefs[term].known for annotator in knowledge.annotators)


def test_annotators_know_equally_many_terms_and_held_out_ones_are_as_hard_as_the_others():
    for seed in range(60):
        inside, outside = sides(seed)
        knowledge = draw_knowledge(inside, outside, Random(seed))
        held_out = knowledge.held_out_terms
        for part in (terms_of(inside) - held_out, held_out, terms_of(outside)):
            known = [sum(a.beliefs[term].known for term in part) for a in knowledge.annotators]
            assert max(known) - min(known) <= 1
        assert held_out < terms_of(inside)
        # 7 of 21 terms: each of three databases gives one of 5 and one of 3, one gives one of 1.
        assert Counter(knowers(knowledge, term) for term in held_out) == {5: 3, 3: 3, 1: 1}
        by_database = sorted(len(held_out & terms_of([database])) for database in inside)
        assert by_database == [2, 2, 3]
        for database in (*inside, *outside):
            counts = Counter(knowers(knowledge, term) for term in terms_of([database]))
            assert counts == {5: 4, 3: 2, 1: 1}


def test_each_phrase_is_misread_by_one_annotator_and_mistaken_columns_are_of_the_same_table():
    inside, outside = sides(4)
    annotators = draw_knowledge(inside, outside, Random(4)).annotators
    assert [annotator.style for annotator in annotators] == list(STYLES)
    misread = [phrase for annotator in annotators for phrase in annotator.misread]
    assert sorted([*misread, "is"]) == sorted(OPERATORS)
    assert sorted(len(annotator.misread) for annotator in annotators) == [1, 1, 1, 1, 2]
    for database in (*inside, *outside):
        for table in database.domain.tables:
            numeric = {column.name for column in table.numeric}
            for column in table.columns:
                for annotator in annotators:
                    belief = annotator.beliefs[column.term]
                    assert belief.column == column.name
                    assert belief.mistaken in numeric - {column.name}


@pytest.mark.parametrize(
    ("known", "misread", "column_rate", "operator_rate"),
    [
        (True, frozenset(), RIGHT_IF_KNOWN, RIGHT_IF_KNOWN),
        (False, frozenset(), 1 - WRONG_IF_UNKNOWN, RIGHT_IF_KNOWN),
        (True, frozenset({"above"}), RIGHT_IF_KNOWN, 1 - WRONG_IF_UNKNOWN),
    ],
)
def test_answers_are_right_as_often_as_knowledge_says(known, misread, column_rate, operator_rate):
    annotator = Annotator("plain", {"seniority": Belief("age", "fans", known)}, misread)
    rng, draws = Random(0), 4000
    answers = [annotator.answer(COUNT, rng) for _ in range(draws)]
    # Four standard deviations of a mean of 4000 coin flips are at most 0.032.
    right_column = sum(" age >" in answer for answer in answers) / draws
    right_operator = sum(" > " in answer for answer in answers) / draws
    assert right_column == pytest.approx(column_rate, abs=0.032)
    assert right_operator == pytest.approx(operator_rate, abs=0.032)
