import pytest

from dph.errors import SettingsError
from dph_corpus.documents import Document
from dph_corpus.mix import Mixture, mix
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
