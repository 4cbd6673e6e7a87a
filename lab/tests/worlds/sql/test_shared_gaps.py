"""Shared gaps: nobody errs more or less often, and everybody errs together as often as is asked."""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations, product
from math import sqrt
from random import Random
from statistics import fmean

import pytest

from lab.tests.worlds.sql.test_annotators import sides, terms_of
from lab.worlds.sql.annotators import (
    KNOWERS_OF_TERMS,
    chance_of_right,
    draw_knowledge,
    with_shared_gaps,
)
from lab.worlds.sql.questions import CONFUSED_OPERATORS, OPERATORS, STYLES

RHOS = (0.0, 0.25, 0.5, 0.75, 1.0)
WORLDS = 300
PHRASES = [p for p, meaning in OPERATORS.items() if CONFUSED_OPERATORS[p] != meaning]


def drawn(seed, correlation):
    """Annotators of a world before and after sharing, and its terms by part."""
    inside, outside = sides(seed)
    own = draw_knowledge(inside, outside, Random(seed))
    held_out = own.held_out_terms
    parts = [sorted(terms_of(inside) - held_out), sorted(held_out), sorted(terms_of(outside))]
    shared = with_shared_gaps(
        own.annotators, parts, correlation=correlation, rng=Random(f"shared {seed}")
    )
    return own.annotators, shared, parts


def gaps(annotators, terms):
    """A row for each term and phrase: of whom it is a gap."""
    rows = {term: tuple(not a.beliefs[term].known for a in annotators) for term in terms}
    return rows | {phrase: tuple(phrase in a.misread for a in annotators) for phrase in PHRASES}


def difficulty(annotators, terms):
    """How many of the five knew each term or phrase before anything was shared."""
    return {name: 5 - sum(row) for name, row in gaps(annotators, terms).items()}


@pytest.fixture(scope="module")
def observed():
    """By correlation and by how many knew it: the rows of gaps of many worlds, world by world."""
    found = {rho: defaultdict(list) for rho in RHOS}
    for rho in RHOS:
        for seed in range(WORLDS):
            own, shared, parts = drawn(seed, rho)
            terms = [term for part in parts for term in part]
            hard = difficulty(own, terms)
            for name, row in gaps(shared, terms).items():
                found[rho][hard[name]].append(row)
    return found


def enumerated(knowers, rho):
    """(P(gap), correlation of two annotators' gaps), over everything that can be drawn."""
    one = both = Fraction(0)
    own = [set(knowing) for knowing in combinations(range(5), knowers)]
    for knowing in own:
        weight = (1 - rho) / len(own)
        one += weight * (0 not in knowing)
        both += weight * (0 not in knowing and 1 not in knowing)
    together = rho * Fraction(5 - knowers, 5)
    one, both = one + together, both + together
    return one, (both - one**2) / (one * (1 - one))


@pytest.mark.parametrize(("knowers", "rho"), list(product((1, 3, 4), map(Fraction, RHOS))))
def test_by_enumeration_the_rate_of_gaps_stays_and_their_correlation_is_as_stated(knowers, rho):
    rate, correlation = enumerated(knowers, rho)
    assert rate == 1 - Fraction(knowers, 5)
    assert correlation == rho - (1 - rho) / 4


@pytest.mark.parametrize("rho", list(map(Fraction, RHOS)))
def test_over_all_terms_of_a_database_the_correlation_goes_from_19_in_54_to_1(rho):
    """Without sharing it is above 0 there, because a hard term is hard for most."""
    rates = [1 - Fraction(knowers, 5) for knowers in KNOWERS_OF_TERMS]
    both = []
    for knowers, rate in zip(KNOWERS_OF_TERMS, rates, strict=True):
        found = enumerated(knowers, rho)[1] if 0 < rate < 1 else Fraction(0)
        both.append(found * rate * (1 - rate) + rate**2)
    rate, together = sum(rates) / len(rates), sum(both) / len(both)
    correlation = (together - rate**2) / (rate * (1 - rate))
    assert correlation == rho + (1 - rho) * Fraction(19, 54)


@pytest.mark.parametrize(("knowers", "rho"), list(product((1, 3, 4), map(Fraction, RHOS))))
def test_wrong_answers_are_as_frequent_at_every_correlation_and_the_more_alike_the_larger_it_is(
    knowers, rho
):
    """Given the gaps, two annotators are wrong independently of each other."""
    wrong = {gap: 1 - Fraction(str(round(chance_of_right(not gap), 2))) for gap in (True, False)}
    rate, correlation = enumerated(knowers, rho)
    both = correlation * rate * (1 - rate) + rate**2  # of having the gap
    chances = {(True, True): both, (False, False): 1 - 2 * rate + both}
    chances |= dict.fromkeys(((True, False), (False, True)), rate - both)
    error = sum(chance * wrong[first] for (first, _), chance in chances.items())
    together = sum(c * wrong[first] * wrong[second] for (first, second), c in chances.items())
    assert sum(chances.values()) == 1
    assert error == wrong[False] + (1 - Fraction(knowers, 5)) * (wrong[True] - wrong[False])
    weakened = (wrong[True] - wrong[False]) ** 2 * rate * (1 - rate) / (error * (1 - error))
    assert (together - error**2) / (error * (1 - error)) == weakened * (rho - (1 - rho) / 4)


@pytest.mark.parametrize(("rho", "knowers"), list(product(RHOS, (1, 3, 4, 5))))
def test_every_annotator_errs_as_often_whatever_is_shared(observed, rho, knowers):
    rows = observed[rho][knowers]
    rate = 1 - knowers / 5
    # Terms of a world are not independent, and evener than if they were: worlds are.
    error = sqrt(rate * (1 - rate) / WORLDS)
    for annotator in range(5):
        assert fmean(row[annotator] for row in rows) == pytest.approx(rate, abs=4 * error)


@pytest.mark.parametrize(("rho", "knowers"), list(product(RHOS, (1, 3, 4))))
def test_gaps_of_two_annotators_are_correlated_as_the_enumeration_says(observed, rho, knowers):
    rows = observed[rho][knowers]
    rate, correlation = (float(part) for part in enumerated(knowers, Fraction(rho)))
    both = fmean(fmean(row[i] and row[j] for i, j in combinations(range(5), 2)) for row in rows)
    found = (both - rate**2) / (rate * (1 - rate))
    # A world's share of gaps in common is between 0 and 1: its deviation is at most 1/2.
    error = 0.5 / sqrt(WORLDS) / (rate * (1 - rate))
    assert found == pytest.approx(correlation, abs=3 * error)


def test_at_0_annotators_are_the_same_and_at_1_they_share_every_gap_and_every_mistake():
    for seed in range(20):
        own, none, parts = drawn(seed, 0.0)
        assert none == own
        _, everything, _ = drawn(seed, 1.0)
        assert [a.style for a in everything] == list(STYLES)
        assert len({a.misread for a in everything}) == 1
        for term in (term for part in parts for term in part):
            assert len({a.beliefs[term] for a in everything}) == 1


def test_what_is_shared_at_one_correlation_is_shared_at_every_larger_one():
    for seed in range(20):
        drawn_at = [drawn(seed, rho) for rho in RHOS]
        own, _, parts = drawn_at[0]
        terms = [term for part in parts for term in part]
        last = {}
        for _, annotators, _ in drawn_at:
            now = {t: [a.beliefs[t] for a in annotators] for t in terms}
            now |= {p: [p in a.misread for a in annotators] for p in PHRASES}
            before = {t: [a.beliefs[t] for a in own] for t in terms}
            before |= {p: [p in a.misread for a in own] for p in PHRASES}
            for name, held in last.items():
                assert now[name] == held
            last = {name: rows for name, rows in now.items() if rows != before[name]}


def test_a_shared_mistake_is_one_that_an_annotator_made_before():
    for seed in range(20):
        own, shared, parts = drawn(seed, 1.0)
        for term in (term for part in parts for term in part):
            before = {a.beliefs[term].mistaken for a in own}
            assert {a.beliefs[term].mistaken for a in shared} <= before


def test_the_shares_of_shared_terms_are_as_near_to_their_chance_as_whole_terms_can_be():
    for seed, rho in product(range(40), RHOS):
        own, shared, parts = drawn(seed, rho)
        hard = difficulty(own, [term for part in parts for term in part])
        for part in parts:
            for knowers in (1, 3):
                terms = [term for term in part if hard[term] == knowers]
                everybodys = sum(len({a.beliefs[t].known for a in shared}) == 1 for t in terms)
                assert abs(everybodys - rho * len(terms)) < 1


def test_the_majority_is_wrong_on_what_is_shared_and_not_known():
    """Of the chances of answers: five who share a gap agree on one mistake, most of the time."""
    _, shared, parts = drawn(0, 1.0)
    unknown = [t for part in parts for t in part if not shared[0].beliefs[t].known]
    assert unknown
    for term in unknown:
        wrong = {a.beliefs[term].mistaken for a in shared}
        assert len(wrong) == 1
        assert all(1 - chance_of_right(a.beliefs[term].known) > 0.5 for a in shared)
