from hypothesis import given
from hypothesis import strategies as st

from dph.model.forward.prefix_tree import LEAST_SAVED, fed, prefix_forest, tokens_of

TOKENS = st.integers(0, 2).map(lambda token: 257 * token)
ROWS = st.lists(st.lists(TOKENS, min_size=1, max_size=12), min_size=1, max_size=14)


def paths(forest, count):
    """Each row's nodes, from the root down."""
    found = [[] for _ in range(count)]

    def walk(nodes):
        for node in nodes:
            for row in node.rows:
                found[row].append(node)
            walk(node.children)

    walk(forest)
    return found


def depth(forest):
    return max((1 + depth(node.children) for node in forest), default=0)


@given(rows=ROWS, least_saved=st.sampled_from([0, 1, 4, LEAST_SAVED]))
def test_every_row_is_the_tokens_on_its_path_and_shares_them_with_its_like_only(rows, least_saved):
    forest = prefix_forest(rows, least_saved=least_saved)
    for row, path in zip(rows, paths(forest, len(rows)), strict=True):
        assert path[0].start == 0
        assert [a.end for a in path[:-1]] == [b.start for b in path[1:]]
        assert path[-1].end == len(row)
        for node in path:
            assert all(rows[i][: node.end] == row[: node.end] for i in node.rows)
            assert node.rows == sorted(node.rows)
            assert node.children == sorted(node.children, key=lambda child: child.rows[0])
    assert forest == sorted(forest, key=lambda node: node.rows[0])
    assert tokens_of(forest) <= sum(map(len, rows))


@given(rows=ROWS)
def test_what_is_alike_stands_once_at_least_saved_0(rows):
    forest = prefix_forest(rows, least_saved=0)
    prefixes = {tuple(row[: n + 1]) for row in rows for n in range(len(row))}
    assert tokens_of(forest) == len(prefixes) or depth(forest) > 32


def test_sharing_has_to_save_more_than_it_costs_what_goes_on():
    def shared(prompt, longer):
        return len(prefix_forest([[7] * prompt + [i] * longer for i in range(1, 5)])) == 1

    # 3 * 8 = 24 tokens saved, against 16 and a 32nd of the 4 * 64 tokens below
    assert shared(8, 64)
    assert not shared(8, 65)
    assert not shared(5, 1)


def test_what_groups_of_alike_rows_would_save_by_themselves_does_not_count():
    def shared(prefix):
        prompts = [[7] * prefix + [i] * 200 for i in range(1, 5)]
        return len(prefix_forest([p + [9 + i] * 30 for p in prompts for i in range(8)])) == 1

    # 3 * 24 = 72 tokens saved, against 16 and a 32nd of the 4 * (200 + 8 * 30) = 1,760 below
    assert shared(24)
    assert not shared(23)


def test_there_is_a_depth_that_no_tree_passes():
    rows = [[1] * n for n in range(1, 100)]
    forest = prefix_forest(rows, least_saved=0)
    assert depth(forest) == 33  # 32 shared nodes, and what is left of each row
    assert [path[-1].end for path in paths(forest, 99)] == list(range(1, 100))


def test_the_last_token_predicts_nothing():
    assert fed([[1, 2], [3]], [[4, 5], []]) == [[1, 2, 4], [3]]
