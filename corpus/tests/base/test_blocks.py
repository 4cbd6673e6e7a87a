from itertools import pairwise

import numpy as np
import pytest

from dph.errors import DataError
from dph_corpus.base.tokens import Blocks, Curriculum


def blocks(*lengths, name="corpus", length=4):
    """Shards whose tokens are 0, 1, 2, ... over all of them."""
    bounds = np.cumsum([0, *lengths])
    shards = [np.arange(a, b, dtype=np.uint32) for a, b in pairwise(bounds)]
    return Blocks(shards, length, seed=0, name=name)


def test_blocks_are_cut_in_order_and_the_rest_of_a_shard_is_left_out():
    assert [blocks(10, 5).read(i).tolist() for i in range(3)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [10, 11, 12, 13],
    ]


def test_each_pass_reads_every_block_once_in_an_order_of_its_own():
    found = blocks(40)
    orders = [found.order(turn).tolist() for turn in range(3)]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3


def test_a_curriculum_is_one_mixture_then_the_next_whatever_is_read_first():
    parts = [(blocks(8, name="corpus"), 3), (blocks(4, name="annealing"), 2)]
    read = [Curriculum(parts)[i]["input_ids"].tolist() for i in range(5)]
    assert len(Curriculum(parts)) == 5
    assert sorted(read[:2]) == [[0, 1, 2, 3], [4, 5, 6, 7]], "the first pass has both blocks"
    assert read[3:] == [[0, 1, 2, 3]] * 2, "annealing passes over its only block again"
    backwards = Curriculum(parts)
    assert [backwards[i]["input_ids"].tolist() for i in (4, 3, 2, 1, 0)] == read[::-1]


def test_every_token_is_a_target():
    one = Curriculum([(blocks(8), 1)])[0]
    assert one["labels"].tolist() == one["input_ids"].tolist()


def test_behind_the_last_sequence_there_is_none():
    with pytest.raises(IndexError):
        Curriculum([(blocks(8), 1)])[1]
    with pytest.raises(IndexError):
        blocks(8).read(2)


def test_a_mixture_without_a_whole_sequence_is_told_with_its_size():
    with pytest.raises(DataError, match="the corpus has 3 tokens, too few for one sequence of 4"):
        blocks(3)
