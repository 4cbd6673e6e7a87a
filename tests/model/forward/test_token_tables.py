import pytest
import torch

from dph.model.forward.packed_attention import token_table
from dph.model.forward.packing import Span

CPU = torch.device("cpu")
NEIGHBOURS = [Span(2, 3), Span(5, 3)]
SCATTERED = [Span(4, 3), Span(0, 2), Span(7, 1)]


def tokens(spans):
    return [list(range(span.start, span.start + span.length)) for span in spans]


@pytest.mark.parametrize("spans", [NEIGHBOURS, SCATTERED, [Span(3, 4)]])
def test_a_table_holds_each_spans_tokens_from_the_left(spans):
    values = torch.arange(20.0).view(10, 2)
    table = token_table(spans, device=CPU).take(values)
    assert table.shape == (len(spans), 2, max(span.length for span in spans))
    for row, ids in enumerate(tokens(spans)):
        assert table[row, :, : len(ids)].T.equal(values[ids])


def test_padding_is_filled_where_asked_for():
    table = token_table(SCATTERED, device=CPU).take(torch.ones(10, 1), fill=0.0)
    assert table[:, 0].tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("spans", [NEIGHBOURS, SCATTERED])
def test_put_writes_back_what_take_read_and_add_adds_it(spans):
    values = torch.randn(10, 2, 4)
    table = token_table(spans, device=CPU)
    copy = torch.zeros_like(values)
    table.put(copy, table.take(values))
    inside = sorted(token for ids in tokens(spans) for token in ids)
    outside = [t for t in range(10) if t not in inside]
    assert copy[inside].equal(values[inside])
    assert not copy[outside].any()
    table.put(copy, table.take(values), add=True)
    assert copy[inside].equal(2 * values[inside])


def test_neighbours_of_one_length_are_a_view():
    values = torch.zeros(10, 1)
    token_table(NEIGHBOURS, device=CPU).take(values).fill_(1.0)
    assert values.sum() == 6
