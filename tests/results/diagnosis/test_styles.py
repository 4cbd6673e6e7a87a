"""Styles: their counts, which died, and the parts of a change of Pass@k."""

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.results.diagnosis.styles import (
    paired_style_counts,
    pass_at_k_parts,
    smallest_rate,
    style_changes,
)
from results.diagnosis.models import (
    a_model,
    collapsed,
    counts_of,
    drawn_counts,
    samples_of,
    scores_of,
)

STYLE = np.array([[0, 0, 1], [1, 2, 2]])
RIGHT = np.array([[1, 0, 1], [0, 1, 1]], dtype=bool)


def test_answers_are_counted_by_problem_and_style_and_those_without_one_come_last():
    run = samples_of(STYLE, RIGHT, names=("b", None, "a"))
    baseline = samples_of(np.zeros((2, 3), int), RIGHT, names=("c",))
    mine, theirs = paired_style_counts(run, baseline, "dev", scores_of(RIGHT), samples=3)
    assert mine.styles == theirs.styles == ("a", "b", "c", None)
    np.testing.assert_array_equal(mine.answers, [[0, 2, 0, 1], [2, 0, 0, 1]])
    np.testing.assert_array_equal(mine.correct, [[0, 1, 0, 1], [2, 0, 0, 0]])
    np.testing.assert_array_equal(theirs.answers, [[0, 0, 3, 0], [0, 0, 3, 0]])
    assert mine.samples == 3
    other = run.take([3, 4, 5, 0, 1, 2])  # another tool has another order
    again, _ = paired_style_counts(other, baseline, "dev", scores_of(RIGHT), samples=3)
    np.testing.assert_array_equal(again.answers, mine.answers)
    np.testing.assert_array_equal(again.correct, mine.correct)


def test_only_the_first_samples_of_the_problems_asked_for_count():
    run = samples_of(STYLE, RIGHT)
    scores = scores_of(RIGHT[:1])
    mine, theirs = paired_style_counts(run, run, "dev", scores, samples=2)
    np.testing.assert_array_equal(mine.answers, [[2]])
    np.testing.assert_array_equal(theirs.correct, [[1]])


def died(model, baseline, **settings):
    found = style_changes(model, baseline, **{"level": 0.05, **settings})
    return [one.style for one in found if one.died]


def halves(problems, a, b, styles=("x", "y")):
    answers = np.tile([a, b], (problems, 1))
    return counts_of(answers, answers // 2, styles)


def test_a_style_died_if_a_tenth_of_its_share_is_left_and_answers_without_one_never_do():
    assert died(halves(20, 0, 8), halves(20, 4, 4)) == ["x"]
    before = halves(20, 4, 4)
    after = halves(20, 0, 8)
    after.answers[:9] = [1, 7]  # 9 answers of 80 before
    assert died(after, before) == []
    assert died(after, before, died=0.2) == ["x"]
    assert died(halves(20, 0, 8, (None, "y")), halves(20, 4, 4, (None, "y"))) == []


def test_a_style_that_was_hardly_there_has_not_died_by_chance():
    before, after = halves(20, 0, 8), halves(20, 0, 8)
    before.answers[:3] = [1, 7]  # three answers, and none of them: 1/2^3 of all deals
    (x, _) = style_changes(after, before, level=0.05)
    assert x.p_value == pytest.approx(1 / 8)
    assert not x.died
    assert smallest_rate(after, before) == pytest.approx(2 / 8)


def test_shares_and_right_answers_are_of_all_answers():
    (x, y) = style_changes(halves(5, 0, 8), halves(5, 6, 2), level=0.05)
    assert (x.baseline_share, x.share, x.baseline_correct, x.correct) == (0.75, 0, 0.5, None)
    assert (y.baseline_share, y.share, y.correct) == (0.25, 1, 0.5)


def test_of_two_draws_of_one_model_no_style_dies():
    model = a_model(60)
    rates = [
        smallest_rate(drawn_counts(model, 8, 2 * seed), drawn_counts(model, 8, 2 * seed + 1))
        for seed in range(100)
    ]
    # At 5% it is 5 of 100 with a standard deviation of 2.2.
    assert sum(rate <= 0.05 for rate in rates) <= 11


def test_a_part_that_is_no_part_is_refused():
    with pytest.raises(SettingsError, match="got 1"):
        died(halves(2, 4, 4), halves(2, 4, 4), died=1)


THINGS = ("styles_died", "certainty", "moved")


def pass_at_k_of_all_subsets(correct, samples, k):
    answers = [i < correct for i in range(samples)]
    hits = [any(chosen) for chosen in combinations(answers, k)]
    return Fraction(sum(hits), len(hits))


def chance(changed, before, after, dead, samples):
    """The chance of a right answer with the things in ``changed`` as in the run, in fractions."""

    def side(thing):
        return after if thing in changed else before

    def certainty(style):
        for counts in (side("certainty"), before, after):
            if counts[0][style]:
                return Fraction(counts[1][style], counts[0][style])
        return Fraction(0)

    alive = [s for s in range(len(before[0])) if s not in dead]

    def share(style):
        for counts in (side("moved"), before, after):
            if together := sum(counts[0][s] for s in alive):
                return Fraction(counts[0][style], together)
        return Fraction(0)

    answers, right = side("styles_died")
    dead_right = Fraction(sum(right[s] for s in dead), samples)
    alive_mass = 1 - Fraction(sum(answers[s] for s in dead), samples)
    return dead_right + alive_mass * sum(share(s) * certainty(s) for s in alive)


def by_enumeration(before, after, dead, samples, k):
    """The parts of one problem: all six orders, and Pass@k from all subsets of k answers."""
    parts = dict.fromkeys(THINGS, Fraction(0))
    for order in permutations(THINGS):
        changed = set()
        for thing in order:
            stepped = changed | {thing}
            step = chance(stepped, before, after, dead, samples)
            parts[thing] += (step - chance(changed, before, after, dead, samples)) / 6
            changed = stepped
    c0, c1 = sum(before[1]), sum(after[1])
    lo, hi = (max(c0 - 1, 0), min(c0 + 1, samples)) if c0 == c1 else (c0, c1)
    rise = pass_at_k_of_all_subsets(hi, samples, k) - pass_at_k_of_all_subsets(lo, samples, k)
    return {thing: part * rise * samples / (hi - lo) for thing, part in parts.items()}


def random_counts(rng, problems, styles, samples):
    answers = np.array(
        [rng.multinomial(samples, rng.dirichlet(np.ones(styles))) for _ in range(problems)]
    )
    return counts_of(answers, rng.binomial(answers, rng.choice([0, 0.3, 0.8, 1], answers.shape)))


@pytest.mark.parametrize("dead", [[], [1], [0, 2]])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_parts_are_those_of_brute_force_enumeration(dead, k):
    rng = np.random.default_rng(k)
    before, after = random_counts(rng, 40, 3, 5), random_counts(rng, 40, 3, 5)
    names = [before.styles[s] for s in dead]
    found = pass_at_k_parts(after, before, names, k=k)
    for i in range(40):
        rows = [(side.answers[i].tolist(), side.correct[i].tolist()) for side in (before, after)]
        expected = by_enumeration(*rows, dead, 5, k)
        for thing in THINGS:
            assert found[thing][i] == pytest.approx(float(expected[thing]), abs=1e-12)
        total = pass_at_k_of_all_subsets(sum(rows[1][1]), 5, k)
        total -= pass_at_k_of_all_subsets(sum(rows[0][1]), 5, k)
        assert sum(expected.values()) == total  # exactly, in fractions
        assert found["total"][i] == pytest.approx(float(total), abs=1e-15)


@pytest.mark.parametrize("samples", [1, 16, 64])
def test_the_parts_add_up_to_the_difference_of_the_unbiased_estimates(samples):
    rng = np.random.default_rng(samples)
    before, after = random_counts(rng, 500, 4, samples), random_counts(rng, 500, 4, samples)
    for dead in ([], ["a"], ["a", "b", "c", "d"]):
        for k in {1, (samples + 1) // 2, samples}:
            found = pass_at_k_parts(after, before, dead, k=k)
            together = sum(found[thing] for thing in THINGS)
            np.testing.assert_allclose(together, found["total"], atol=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "dead", "k", "whole"),
    [
        (([8], [6]), ([8], [2]), [], 4, "certainty"),  # one style
        (([4, 4], [4, 0]), ([1, 7], [1, 0]), [], 2, "moved"),  # to a worse style that was there
        (([4, 4], [4, 0]), ([0, 8], [0, 0]), ["a"], 2, "styles_died"),  # what it alone knew
        (([8, 0], [4, 0]), ([0, 8], [0, 8]), [], 1, "moved"),  # to a style not seen before
    ],
)
def test_a_change_of_one_kind_is_called_that_kind(before, after, dead, k, whole):
    sides = [counts_of(*([row] for row in side)) for side in (after, before)]
    found = pass_at_k_parts(*sides, dead, k=k)
    for thing in THINGS:
        np.testing.assert_allclose(found[thing], found["total"] if thing == whole else 0)


def test_nothing_is_called_certainty_where_no_certainty_changed():
    """At 16 samples, where a style is seen three times: the bias that the secant avoids."""
    base = a_model(3000, styles=5)
    after = collapsed(base, 0.97)
    names = tuple("abcde")
    found = pass_at_k_parts(
        drawn_counts(after, 16, 1, names), drawn_counts(base, 16, 2, names), list("bcde"), k=8
    )
    assert found["total"].mean() < -0.05
    assert abs(found["certainty"].mean()) < 0.1 * abs(found["total"].mean())
    assert found["styles_died"].mean() == pytest.approx(found["total"].mean(), rel=0.1)


def test_what_cannot_be_split_is_refused():
    two, one = counts_of([[4, 4]], [[1, 1]]), counts_of([[8]], [[2]])
    with pytest.raises(DataError, match="same problems and styles"):
        pass_at_k_parts(two, one, [], k=1)
    with pytest.raises(DataError, match="samples differ: 4 and 8"):
        pass_at_k_parts(counts_of([[4]], [[2]]), one, [], k=1)
    with pytest.raises(SettingsError, match="k=9"):
        pass_at_k_parts(one, one, [], k=9)
