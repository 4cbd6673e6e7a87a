from pathlib import Path

import pytest

from lab.benchmarks.marked_blocks import write_block
from lab.benchmarks.theory.counterexamples import (
    at_the_start,
    bandit_table,
    disputed_case,
    start_table,
)
from lab.benchmarks.theory.grid import GAMMAS, cases, count, table
from lab.benchmarks.theory.mdp import random_mdp

DOCUMENT = Path(__file__).parents[3] / "docs" / "theory.md"


@pytest.mark.parametrize(("right", "reference"), [(0.5, 0.9), (0.7, 0.9), (0.2, 0.3)])
def test_on_one_state_without_a_future_the_theorem_asks_for_delta_where_there_is_zero(
    right, reference
):
    delta, bound = disputed_case(right, reference)
    assert delta == pytest.approx(reference - right)
    assert bound.left == pytest.approx(0.0, abs=1e-12)
    assert bound.right == pytest.approx(delta)
    assert not bound.holds


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_before_the_first_update_it_is_false_under_every_near_reference_whatever_c_f(gamma, scale):
    for seed in range(5):
        mdp = random_mdp(4, 3, gamma, seed=seed)
        shares = [10.0**-k for k in range(1, 9)]
        found = [at_the_start(mdp, share, scale=scale) for share in shares]
        positive = [(eps_f, bound) for eps_f, bound in found if eps_f > 1e-8]
        assert positive
        for eps_f, bound in positive:
            assert bound.left == pytest.approx(0.0, abs=1e-9)
            assert bound.right == pytest.approx(eps_f)
            assert not bound.holds


def test_on_a_small_grid_what_is_proved_holds_and_the_theorem_does_not():
    rows = count(cases((0.0, 0.9), seeds=2))
    assert [row.trust_region_false for row in rows] == [0, 0]
    assert [row.reference_false for row in rows] == [0, 0]
    without_future, with_future = rows
    assert without_future.false == without_future.useful == without_future.assumed == 144
    assert 0 < with_future.false <= with_future.useful < with_future.assumed


def test_the_counterexamples_are_those_of_the_document():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert bandit_table() in text
    assert start_table() in text


@pytest.mark.slow
def test_the_grid_is_that_of_the_document():
    rows = count(cases())
    assert [row.gamma for row in rows] == list(GAMMAS)
    assert table(rows) in DOCUMENT.read_text(encoding="utf-8")


def test_only_what_is_between_the_markers_is_written(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb")
    write_block(page, "x", "new\n")
    assert page.read_text() == "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb"
    with pytest.raises(SystemExit, match="has no <!-- y: begin -->"):
        write_block(page, "y", "new\n")
