"""Every (rank, mini-batch) gets its share of stored rows, and weights that add up to a mean."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.engines.verl.mixing import Cells, StoredRows, filled, lay_out_all, row_scales
from dph.errors import SettingsError

CELLS = st.builds(Cells, ranks=st.integers(1, 4), minibatches=st.integers(1, 3))
FEW = settings(max_examples=60, deadline=None)


def lay_out(policy, lengths, cells, *, filling=0):
    return lay_out_all(policy, [StoredRows(lengths=lengths, filling=filling)], cells)


@st.composite
def batches(draw):
    cells = draw(CELLS)
    policy = cells.count * draw(st.integers(1, 3))
    stored = cells.count * draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 50), min_size=stored, max_size=stored))
    return cells, policy, lengths


@FEW
@given(batches())
def test_the_parts_that_verl_cuts_hold_equal_numbers_of_both_kinds(batch):
    cells, policy, lengths = batch
    layout = lay_out(policy, lengths, cells)
    assert sorted(layout.order) == list(range(policy + len(lengths)))
    size = len(layout.order) // cells.count
    for cell in range(cells.count):
        part = layout.order[cell * size : (cell + 1) * size]
        assert sum(row >= policy for row in part) == len(lengths) // cells.count
        assert set(part) <= set(layout.minibatches[cell % cells.minibatches])
    # Policy rows stay where verl put them.
    assert [row for row in layout.order if row < policy] == list(range(policy))


@FEW
@given(batches(), st.sampled_from(["token_mean", "sequence_mean"]))
def test_the_weights_of_a_mini_batch_make_a_mean_of_each_kind(batch, reduction):
    cells, policy, lengths = batch
    layout = lay_out(policy, lengths, cells)
    tokens = [3] * policy + lengths
    whole = {"policy": policy, "used": [True] * len(tokens), "normalisation": "separate"}
    scales = scales_of(layout, tokens, **whole, reduction=reduction)
    for rows in layout.minibatches:
        for side in ([r for r in rows if r < policy], [r for r in rows if r >= policy]):
            total = sum(scales.weight[r] * tokens[r] for r in side)
            assert total == pytest.approx(1, rel=1e-6)
        assert {scales.policy_scale[r] for r in rows} == {1.0}


def scales_of(layout, tokens, *, policy, used, normalisation, reduction="token_mean"):
    return row_scales(
        layout,
        tokens,
        policy=policy,
        used=used,
        reduction=reduction,
        max_tokens=50,
        normalisation=normalisation,
    )


def test_over_all_rows_each_kind_counts_by_its_number_and_rows_that_only_fill_do_not():
    layout = lay_out(6, [5, 5], Cells(ranks=1, minibatches=1))
    scales = scales_of(layout, [5] * 8, policy=6, used=[True] * 8, normalisation="rows")
    assert scales.policy_scale == (0.75,) * 8
    assert scales.weight[6:] == pytest.approx([0.25 / 10] * 2)
    layout = lay_out(2, [4, 4], Cells(ranks=2, minibatches=1), filling=1)
    used = [True, True, True, False]
    scales = scales_of(layout, [3, 3, 4, 4], policy=2, used=used, normalisation="separate")
    assert scales.weight[2:] == (0.25, 0.0)


@pytest.mark.parametrize(
    ("count", "multiple", "expected"), [(1, 1, 4), (4, 1, 4), (5, 1, 8), (5, 4, 16), (16, 4, 16)]
)
def test_stored_rows_are_filled_up_to_whole_cells(count, multiple, expected):
    assert filled(count, Cells(ranks=2, minibatches=2), multiple=multiple) == expected


@pytest.mark.parametrize(("policy", "stored", "name"), [(3, 4, "policy"), (4, 3, "stored")])
def test_rows_that_do_not_divide_are_refused(policy, stored, name):
    with pytest.raises(SettingsError, match=f"3 {name} rows do not divide by 2 ranks"):
        lay_out(policy, [1] * stored, Cells(ranks=2, minibatches=2))


def test_long_stored_answers_are_spread_over_the_ranks():
    layout = lay_out(2, [9, 9, 1, 1], Cells(ranks=2, minibatches=1))
    lengths = [0, 0, 9, 9, 1, 1]
    assert [sum(lengths[r] for r in layout.order[k : k + 3]) for k in (0, 3)] == [10, 10]


@FEW
@given(CELLS, st.integers(1, 30), st.integers(1, 4))
def test_filling_leaves_mini_batches_at_most_one_answer_apart(cells, used, multiple):
    total = filled(used, cells, multiple=multiple)
    layout = lay_out(0, [1] * total, cells, filling=total - used)
    counts = [sum(row < used for row in rows) for rows in layout.minibatches]
    assert max(counts) - min(counts) <= 1
