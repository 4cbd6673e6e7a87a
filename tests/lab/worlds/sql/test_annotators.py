"""Who knows what: the counts and rates that tie styles to Pass@k."""

from collections import Counter
from random import Random

import pytest

from dph.lab.worlds.sql.annotators import (
    RIGHT_IF_KNOWN,
    WRONG_IF_UNKNOWN,
    Annotator,
    Belief,
    draw_annotators,
)
from dph.lab.worlds.sql.databases import draw_database
from dph.lab.worlds.sql.domains import DOMAINS
from dph.lab.worlds.sql.questions import OPERATORS, Question, WhereCondition
from dph.lab.worlds.sql.styles import STYLES

DATABASES = [draw_database(domain, Random(0)) for domain in DOMAINS]
MUSIC = next(domain for domain in DOMAINS if domain.name == "music")
COUNT = Question(
    domain=MUSIC,
    kind="count",
    table="singer",
    conditions=(WhereCondition("seniority", "above", "20"),),
)


@pytest.fixture(params=range(5))
def annotators(request):
    return draw_annotators((DATABASES[:3], DATABASES[3:]), Random(request.param))


def test_each_database_has_four_easy_two_medium_and_one_hard_term(annotators):
    for database in DATABASES:
        knowers = Counter(
            sum(annotator.beliefs[column.term].known for annotator in annotators)
            for column in database.domain.columns
        )
        assert knowers == {5: 4, 3: 2, 1: 1}


def test_each_phrase_is_misread_by_one_annotator_and_each_annotator_misreads_one(annotators):
    assert [annotator.style for annotator in annotators] == list(STYLES)
    misread = [phrase for annotator in annotators for phrase in annotator.misread]
    assert sorted([*misread, "is"]) == sorted(OPERATORS)
    assert sorted(len(annotator.misread) for annotator in annotators) == [1, 1, 1, 1, 2]


@pytest.mark.parametrize("side", [slice(0, 3), slice(3, None)])
def test_no_annotator_knows_more_than_another(annotators, side):
    terms = [c.term for database in DATABASES[side] for c in database.domain.columns]
    merits = [
        sum(annotator.beliefs[term].known for term in terms) - len(annotator.misread)
        for annotator in annotators
    ]
    assert max(merits) - min(merits) <= 1


def test_a_mistaken_column_is_another_numeric_column_of_the_same_table(annotators):
    for database in DATABASES:
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


def test_the_same_random_stream_gives_the_same_answers(annotators):
    for annotator in annotators:
        assert annotator.answer(COUNT, Random(7)) == annotator.answer(COUNT, Random(7))
