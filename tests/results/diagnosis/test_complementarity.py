"""Complementarity: exact on built worlds, silent where styles know the same things."""

import re
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from dph.errors import SettingsError
from dph.results.diagnosis.set_diagnosis import complementarity_text
from dph.results.diagnosis.styles import StyleCounts, complementarity, pool_style_counts

KNOWN, UNKNOWN, KNOWS = 0.7, 0.02, 0.5
STYLES = 3


def world(
    strength: float, *, problems: int, samples: int, seed: int, chances=(KNOWN, UNKNOWN)
) -> StyleCounts:
    """With chance ``strength`` each style knows a problem by itself, else all or none do."""
    rng = np.random.default_rng(seed)
    apart = rng.random((problems, 1)) < strength
    alone, together = (rng.random((problems, n)) < KNOWS for n in (STYLES, 1))
    p = np.where(np.where(apart, alone, together), *chances)
    answers = rng.multinomial(samples, [1 / STYLES] * STYLES, size=problems)
    names = tuple(f"style {i}" for i in range(STYLES))
    return StyleCounts(styles=names, answers=answers, correct=rng.binomial(answers, p))


def truth(strength: float, k: int) -> float:
    """C_k of the world, by its eight cases of who knows a problem."""
    whole = alone = 0.0
    for known in product((True, False), repeat=STYLES):
        chance = strength * 0.5**STYLES + (1 - strength) * 0.5 * (len(set(known)) == 1)
        p = np.where(known, KNOWN, UNKNOWN)
        whole += chance * (1 - (1 - p.mean()) ** k)
        alone += chance * (1 - (1 - p[0]) ** k)
    return whole - alone


@pytest.mark.parametrize("strength", [0.2, 0.4, 0.6, 0.8, 1.0])
def test_a_built_strength_lies_in_its_interval_as_often_as_it_says(strength: float):
    inside = []
    for seed in range(200):
        counts = world(strength, problems=150, samples=24, seed=seed)
        found = complementarity(counts, k=4, seed=seed, resamples=400, draws=1)
        assert found is not None
        inside.append(found.lo <= truth(strength, 4) <= found.hi)
    assert np.mean(inside) >= 0.95 - 3 * (0.95 * 0.05 / 200) ** 0.5


@pytest.mark.slow
def test_without_complementarity_it_is_named_in_five_draws_of_a_hundred():
    named = 0
    for seed in range(1000):
        counts = world(0.0, problems=40, samples=16, seed=seed, chances=(0.6, 0.1))
        found = complementarity(counts, k=2, seed=seed, resamples=1, draws=199)
        assert found is not None
        named += found.p_value <= 0.05
    assert abs(named / 1000 - 0.05) <= 0.01 + 2 * (0.05 * 0.95 / 1000) ** 0.5


def test_a_style_that_knows_all_leaves_nothing_to_the_others():
    rng = np.random.default_rng(0)
    answers = np.full((200, 2), 8)
    p = np.stack([rng.random(200), np.zeros(200)], axis=1)
    counts = StyleCounts(styles=("a", "b"), answers=answers, correct=rng.binomial(answers, p))
    found = complementarity(counts, k=4, draws=99)
    assert found is not None
    assert found.hi < 0
    assert found.p_value > 0.9
    assert [one.style for one in found.styles] == ["a", "b"]
    assert found.styles[0].share == 0.5


def test_by_hand():
    """Each style solves the other's problem never: two tries of both 2/3, of one style 1/2."""
    counts = StyleCounts(
        styles=("a", "b"), answers=np.full((2, 2), 2), correct=np.array([[2, 0], [0, 2]])
    )
    found = complementarity(counts, draws=9)
    assert found is not None
    assert (found.k, round(found.value, 6)) == (2, round(1 / 3, 6))
    assert [one.pass_at_k for one in found.styles] == [0.5, 0.5]
    assert [one.of_all for one in found.styles] == pytest.approx([5 / 6, 5 / 6])


def test_the_default_k_is_the_largest_that_two_styles_have_answers_for():
    answers = np.array([[9, 5, 2]] * 3 + [[14, 1, 1]] * 2)
    counts = StyleCounts(styles=("a", "b", "c"), answers=answers, correct=np.zeros_like(answers))
    found = complementarity(counts, draws=9)
    assert found is not None
    assert found.k == 4
    assert [one.style for one in found.styles] == ["a", "b"]


def test_what_cannot_be_asked():
    answers = np.array([[15, 1]] * 4)
    one_style = StyleCounts(styles=("a", "b"), answers=answers, correct=np.zeros_like(answers))
    assert complementarity(one_style) is None
    unnamed = StyleCounts(
        styles=("a", None), answers=np.full((4, 2), 8), correct=np.zeros((4, 2), dtype=int)
    )
    assert complementarity(unnamed) is None
    with pytest.raises(SettingsError, match="k >= 2, got k=1"):
        complementarity(unnamed, k=1)


def test_a_sentence_says_what_collapsing_would_cost_or_that_it_would_cost_nothing():
    strong = complementarity(world(1.0, problems=200, samples=24, seed=1), k=4)
    assert strong is not None
    assert re.fullmatch(
        r"\+\d+\.\d of the Pass@4 of \d+\.\d% come from styles that know different things "
        r"\(\[\+.*\] points, p = 0\.001\); its best style alone, style \d, has \d+\.\d%\.",
        complementarity_text(strong),
    )
    none = complementarity(world(0.0, problems=200, samples=24, seed=1), k=4)
    assert none is not None
    assert complementarity_text(none).startswith("the styles do not add to each other")


def test_counts_of_a_pool_leave_out_what_has_no_gold_answer():
    rows = [
        ("a", "CORRECT", "x"),
        ("a", "WRONG", "y"),
        ("b", "BAD_GOLD", "x"),
        ("b", "WRONG", "x"),  # not compared with its gold answer
    ]
    columns = dict(zip(("problem_id", "outcome", "style"), zip(*rows, strict=True), strict=True))
    counts = pool_style_counts(pa.table({n: list(c) for n, c in columns.items()}))
    assert counts is not None
    assert counts.styles == ("x", "y")
    assert (counts.answers.tolist(), counts.correct.tolist()) == ([[1, 1]], [[1, 0]])
    plain = pa.table({"problem_id": ["a"], "outcome": ["WRONG"], "style": pa.nulls(1, pa.string())})
    assert pool_style_counts(plain) is None
