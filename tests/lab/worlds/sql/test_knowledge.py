"""Who knows what: balanced by side in the first edition, within three parts in the second."""

from collections import Counter
from random import Random

import pytest

from dph.lab.worlds.sql.annotators import (
    draw_annotators,
    knowing_more,
    knowledge_by_part,
    knowledge_by_side,
)
from dph.lab.worlds.sql.databases import draw_database
from dph.lab.worlds.sql.domains import DOMAINS
from dph.lab.worlds.sql.questions import OPERATORS
from dph.lab.worlds.sql.styles import STYLES

BLANK = [draw_database(domain, Random(0)) for domain in DOMAINS]
SEEDS = range(60)


def sides(seed):
    """Three in-domain and three cross-domain databases; their rows play no part here."""
    chosen = Random(seed).sample(BLANK, 6)
    return chosen[:3], chosen[3:]


def terms_of(databases):
    return {column.term for database in databases for column in database.domain.columns}


def knowers(knowledge, term):
    return sum(annotator.beliefs[term].known for annotator in knowledge.annotators)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_annotators_know_equally_many_trained_held_out_and_cross_domain_terms(seed):
    inside, outside = sides(seed)
    knowledge = knowledge_by_part(inside, outside, Random(seed))
    held_out = knowledge.held_out_terms
    for part in (terms_of(inside) - held_out, held_out, terms_of(outside)):
        known = [sum(a.beliefs[term].known for term in part) for a in knowledge.annotators]
        assert max(known) - min(known) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_held_out_terms_are_equally_hard_in_every_world_and_as_hard_as_the_others(seed):
    inside, outside = sides(seed)
    knowledge = knowledge_by_part(inside, outside, Random(seed))
    held_out = knowledge.held_out_terms
    assert held_out < terms_of(inside)
    # 7 of 21 terms: each of the three databases gives one of 5 and one of 3, one gives one of 1.
    assert Counter(knowers(knowledge, term) for term in held_out) == {5: 3, 3: 3, 1: 1}
    by_database = sorted(len(held_out & terms_of([database])) for database in inside)
    assert by_database == [2, 2, 3]
    for database in (*inside, *outside):
        counts = Counter(knowers(knowledge, term) for term in terms_of([database]))
        assert counts == {5: 4, 3: 2, 1: 1}


@pytest.mark.parametrize("seed", range(20))
def test_annotators_that_are_told_of_more_databases_believe_the_same_of_the_others(seed):
    inside, outside = sides(seed)
    own = knowledge_by_part(inside, outside, Random(seed)).annotators
    more = [database for database in BLANK if database not in (*inside, *outside)][:3]
    told = knowing_more(own, more, Random(seed))
    for before, after in zip(own, told, strict=True):
        assert (after.style, after.misread) == (before.style, before.misread)
        assert after.beliefs.items() >= before.beliefs.items()
        assert after.beliefs.keys() - before.beliefs.keys() == terms_of(more)
    known = [sum(a.beliefs[term].known for term in terms_of(more)) for a in told]
    assert max(known) - min(known) <= 1


def test_by_side_alone_the_three_parts_are_not_balanced():
    gaps = []
    for seed in SEEDS:
        inside, outside = sides(seed)
        knowledge = knowledge_by_side(inside, outside, Random(seed))
        held_out = knowledge.held_out_terms
        known = [sum(a.beliefs[term].known for term in held_out) for a in knowledge.annotators]
        gaps.append(max(known) - min(known))
    assert max(gaps) >= 3


@pytest.mark.parametrize("draw", [knowledge_by_side, knowledge_by_part])
def test_beliefs_and_misread_phrases_keep_the_rules_of_annotators(draw):
    inside, outside = sides(4)
    annotators = draw(inside, outside, Random(4)).annotators
    assert [annotator.style for annotator in annotators] == list(STYLES)
    misread = [phrase for annotator in annotators for phrase in annotator.misread]
    assert sorted([*misread, "is"]) == sorted(OPERATORS)
    for database in (*inside, *outside):
        for table in database.domain.tables:
            numeric = {column.name for column in table.numeric}
            for column in table.columns:
                for annotator in annotators:
                    belief = annotator.beliefs[column.term]
                    assert belief.column == column.name
                    assert belief.mistaken in numeric - {column.name}


def test_the_first_edition_draws_what_it_always_drew():
    inside, outside = sides(7)
    rng = Random(7)
    annotators = draw_annotators((inside, outside), rng)
    terms = [column.term for database in inside for column in database.domain.columns]
    knowledge = knowledge_by_side(inside, outside, Random(7))
    assert knowledge.annotators == annotators
    assert knowledge.held_out_terms == frozenset(rng.sample(terms, 7))
