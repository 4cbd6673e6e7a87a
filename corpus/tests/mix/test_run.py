import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import SettingsError
from dph_corpus.documents import Document
from dph_corpus.mix import ANNEALING, Mixture, PartDocument, Selection, mix
from small_corpora import small_corpus


def part(directory, name, count, shards=1):
    texts = [(f"{name}{n}", f"{name} {n:03d}\n") for n in range(count)]
    documents = [
        Document.of(text, id=key, path=f"{key}.py", language="python") for key, text in texts
    ]
    return small_corpus(directory / name, documents, shards=shards)


def test_a_mixture_is_a_corpus_with_the_shares_and_tells_what_is_short(tmp_path):
    parts = {"a": part(tmp_path, "a", 100), "b": part(tmp_path, "b", 3)}
    mixture = Mixture(budget=240, shares={"a": 1, "b": 1})
    made = mix(parts, tmp_path / "out", mixture=mixture)
    kept = [document.id[0] for document in made.documents()]
    assert (kept.count("a"), kept.count("b")) == (20, 3)  # 120 bytes each, in documents of 6
    counts = made.manifest.flow.counts
    assert (counts["bytes a"], counts["short a"]) == (120, 0)
    assert (counts["bytes b"], counts["short b"]) == (18, 102)
    assert made.manifest.flow.reasons["share"].documents == 80


def test_neither_the_parts_shards_nor_the_workers_change_a_byte(tmp_path):
    mixture = Mixture(budget=300, shares={"a": 3, "b": 1}, caps={"python": 250, "pyhton": 9})
    made = []
    for shards in (1, 3):
        home = tmp_path / str(shards)
        parts = {name: part(home, name, 60, shards) for name in "ab"}
        mixed = mix(parts, home / "out", mixture=mixture, workers=shards, shards=2)
        made.append([mixed.path(shard).read_bytes() for shard in mixed.shards])
        again = mix(parts, home / "out", mixture=mixture, shards=2)
        assert again.manifest == mixed.manifest
        counts = mixed.manifest.flow.counts
        assert dict(counts).items() >= {"taken python": 246, "taken pyhton": 0}.items()  # 41 x 6
    assert made[0] == made[1]


def test_parts_and_shares_have_the_same_names(tmp_path):
    parts = {"a": part(tmp_path, "a", 1)}
    with pytest.raises(SettingsError, match="parts a; shares a, b"):
        mix(parts, tmp_path / "out", mixture=Mixture(budget=1, shares={"a": 1, "b": 1}))


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


@given(sizes=st.lists(st.integers(1, 50), max_size=60), budget=st.integers(1, 1500))
def test_a_share_is_filled_until_no_document_that_is_left_fits(sizes, budget):
    found = [PartDocument("a", f"{n:03d}", "c", size) for n, size in enumerate(sizes)]
    selection, left_out = selected(found, budget=budget, shares={"a": 1})
    left = {name for _, name, _ in left_out}
    room = selection.shortfalls()["a"]
    assert room == budget - sum(c.bytes for c in found if c.id not in left) >= 0
    assert all(c.bytes > room for c in found if c.id in left)


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


def test_the_default_shares_are_the_published_ones_and_fill_the_budget():
    assert sum(ANNEALING.values()) == pytest.approx(100)
    quotas = Mixture(budget=10_000, shares=ANNEALING).quotas()
    assert quotas == {"code": 8394, "algorithmic": 1244, "synthetic": 271, "textbook": 91}


def test_numbers_out_of_range_are_refused():
    with pytest.raises(SettingsError, match="at least 1 byte"):
        Mixture(budget=0, shares={"a": 1})
    for share in (0, -1, float("nan"), float("inf")):
        with pytest.raises(SettingsError, match="the share of a"):
            Mixture(budget=1, shares={"a": share})
    for caps in ({"Java": 1}, {"java": -1}):
        with pytest.raises(SettingsError, match="a cap must be a language in lower case"):
            Mixture(budget=1, shares={"a": 1}, caps=caps)
