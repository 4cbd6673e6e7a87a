from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.mix import Mixture, PartDocument, Selection


def selected(candidates, **settings):
    selection = Selection(Mixture(**settings))
    left_out = [(found.part, found.id, reason) for found, reason in selection.left_out(candidates)]
    return selection, left_out


def candidates(part, count, size=10, language="python"):
    return [PartDocument(part, f"{part}{n:03d}", language, size) for n in range(count)]


def test_a_part_gets_its_share_and_no_byte_more():
    found = candidates("a", 20) + candidates("b", 20)
    selection, left_out = selected(found, budget=100, shares={"a": 3, "b": 1})
    assert selection.taken == {"a": 70, "b": 20}  # 75 and 25 bytes, in documents of 10
    assert {reason for _, _, reason in left_out} == {"share"}
    assert selection.shortfalls() == {"a": 5, "b": 5}


def test_what_is_missing_is_told_and_not_made_up_for():
    found = candidates("a", 20) + candidates("b", 2)
    selection, _ = selected(found, budget=200, shares={"a": 1, "b": 1})
    assert selection.taken == {"a": 100, "b": 20}
    assert selection.shortfalls()["b"] == 80


@given(
    sizes=st.lists(st.integers(1, 50), max_size=60),
    budget=st.integers(1, 1500),
)
def test_a_share_is_filled_until_no_document_that_is_left_fits(sizes, budget):
    found = [PartDocument("a", f"{n:03d}", "c", size) for n, size in enumerate(sizes)]
    selection, left_out = selected(found, budget=budget, shares={"a": 1})
    left = {name for _, name, _ in left_out}
    room = selection.shortfalls()["a"]
    assert room == budget - sum(c.bytes for c in found if c.id not in left) >= 0
    assert all(c.bytes > room for c in found if c.id in left)


def test_a_document_larger_than_a_share_leaves_it_to_the_others():
    found = [PartDocument("a", "000", "c", 1000), *candidates("a", 20)]
    selection, left_out = selected(found, budget=100, shares={"a": 1})
    assert selection.taken["a"] == 100
    assert left_out[0] == ("a", "000", "share")


def test_a_language_gets_no_more_than_its_cap_and_leaves_room_for_others():
    found = candidates("a", 8, language="html") + candidates("a", 8)
    selection, left_out = selected(found, budget=100, shares={"a": 1}, caps={"html": 35})
    assert selection.taken["a"] == 100
    reasons = [reason for _, _, reason in left_out]
    # three files of html, then seven of python fill the 100 bytes
    assert reasons == ["language"] * 5 + ["share"]


def test_an_id_is_taken_once():
    found = [PartDocument(part, "same", "c", 1) for part in "ab"]
    selection, left_out = selected(found, budget=10, shares={"a": 1, "b": 1})
    assert left_out == [("b", "same", "id_taken")]
    assert selection.shortfalls() == {"a": 4, "b": 5}
