import random

import numpy as np
import pytest

from dph.errors import DataError
from dph_corpus.dedup.run import dedup
from dph_corpus.dedup.work import CompareMembers
from dph_corpus.documents import Document
from dph_corpus.settings import PRESETS, preset
from dph_corpus.shards import shard_name, shard_of
from killed_corpora import kill
from planted_pairs import pair
from small_corpora import bytes_of, dropped, numbered, small_corpus

OPENCODER = PRESETS["opencoder"]


def planted_documents(originals=30):
    """Originals, each with a copy and a near-copy (two words of about 3,000), and strangers."""
    rng = np.random.default_rng(5)
    documents = []
    for number in range(originals):
        first, second, _ = pair(rng, 3000, 1)
        for name, text in (("a", first), ("b", first), ("c", second)):
            stars = {"a": 1, "b": number % 3, "c": 0}[name]
            facts = {"path": f"{name}.txt", "stars": stars, "commit_time": number}
            documents.append(Document.of(text, id=f"{number}{name}", **facts))
        stranger = pair(rng, 300, 1)[0]
        documents.append(Document.of(stranger, id=f"{number}s", path="s.txt"))
    return documents


def reasons(corpus):
    """(reason, kept id) by the id that was dropped."""
    return {name: (row["reason"], row["kept_id"]) for name, row in dropped(corpus).items()}


def test_the_most_starred_then_the_latest_then_the_first_id_stays(tmp_path):
    text = "the same text in every one of them"
    documents = [
        Document.of(text, id="a", path="p", stars=1, commit_time=5),
        Document.of(text, id="b", path="p", stars=2, commit_time=3),
        Document.of(text, id="d", path="p", stars=2, commit_time=4),
        Document.of(text, id="c", path="p", stars=2, commit_time=4),
        Document.of("short", id="e", path="p"),
        Document.of("short", id="f", path="p"),
        Document.of("", id="g", path="p"),
    ]
    made = dedup(small_corpus(tmp_path / "in", documents), tmp_path / "out", nearness=OPENCODER)
    assert {document.id for document in made.documents()} == {"c", "e", "g"}
    assert reasons(made) == {**dict.fromkeys("abd", ("exact", "c")), "f": ("exact", "e")}


SCRIPTS = {
    "han": (range(0x4E00, 0x4E00 + 300), "、", "。"),
    "thai": (range(0x0E01, 0x0E2F), " ", ""),
    "latin words": (None, ", ", "."),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_text_with_one_other_sentence_is_a_near_copy_in_every_script(tmp_path, script):
    """One of 40 sentences of 12 letters differs: of n runs of 5 letters at most 16 do."""
    letters, comma, stop = SCRIPTS[script]
    draw = random.Random(3)

    def sentence():
        if letters is None:
            return " ".join(f"w{draw.randrange(500)}" for _ in range(12))
        return "".join(chr(draw.choice(letters)) for _ in range(12))

    first, stranger = ([sentence() for _ in range(40)] for _ in range(2))
    second = [*first[:20], sentence(), *first[21:]]
    documents = [
        Document.of(comma.join(text) + stop, id=name, path="p")
        for name, text in (("a", first), ("b", second), ("c", stranger))
    ]
    made = dedup(
        small_corpus(tmp_path / "in", documents), tmp_path / "out", nearness=PRESETS["loose"]
    )
    assert reasons(made) == {"b": ("near", "a")}
    (row,) = dropped(made).values()
    # (n - 16) / (n + 16) for n = 400; of 476 runs a few are equal
    assert row["value"] >= 384 / 416


def test_near_copies_go_and_copies_of_them_are_told_who_stayed(tmp_path):
    source = small_corpus(tmp_path / "in", planted_documents())
    made = dedup(source, tmp_path / "out", nearness=OPENCODER)
    found = reasons(made)
    for number in range(30):
        best = "b" if number % 3 == 2 else "a"
        other = "a" if best == "b" else "b"
        assert found[f"{number}{other}"] == ("exact", f"{number}{best}")
        assert found[f"{number}c"] == ("near", f"{number}{best}")
    assert len(found) == 60
    kept = dedup(source, tmp_path / "exact", nearness=PRESETS["exact"])
    assert {reason for reason, _ in reasons(kept).values()} == {"exact"}
    closer = dedup(source, tmp_path / "closer", nearness=preset("opencoder", 0.9999))
    assert {reason for reason, _ in reasons(closer).values()} == {"exact"}


def test_neither_order_nor_shards_nor_workers_change_a_byte(tmp_path):
    documents = planted_documents(6)
    made = []
    for shards in (1, 5):
        random.Random(shards).shuffle(documents)
        source = small_corpus(tmp_path / f"in{shards}", documents, shards=shards)
        out = tmp_path / f"out{shards}"
        dedup(source, out, nearness=PRESETS["loose"], workers=1 + shards // 5)
        made.append(bytes_of(out))
    assert made[0] == made[1]
    cut = dedup(source, tmp_path / "cut", nearness=OPENCODER, shards=3)
    whole = small_corpus(tmp_path / "again", list(cut.documents()))
    assert whole.manifest.content == cut.manifest.content
    assert len(cut.shards) == 3


def test_a_closer_look_reads_only_the_shards_of_its_candidates(tmp_path, monkeypatch):
    text = " ".join(f"word{n}" for n in range(200))
    alike = [Document.of(f"{text} {end}", id=end, path=end) for end in ("one", "two")]
    source = small_corpus(tmp_path / "in", [*alike, *numbered(40)], shards=16)
    seen = []
    monkeypatch.setattr(
        "dph_corpus.dedup.run.CompareMembers",
        lambda **fields: seen.append(fields["shards"]) or CompareMembers(**fields),
    )
    made = dedup(source, tmp_path / "out", nearness=PRESETS["loose"])
    assert made.manifest.documents == 41
    held = {shard_of(document.id, 16) for document in alike}
    assert [path.name for path in seen[0]] == [shard_name(index, 16) for index in sorted(held)]


def test_done_again_it_does_nothing_and_another_setting_does_it_anew(tmp_path):
    source = small_corpus(tmp_path / "in", planted_documents(3))
    dedup(source, tmp_path / "out", nearness=OPENCODER)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.parquet")}
    dedup(source, tmp_path / "out", nearness=OPENCODER)
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.parquet")}
    made = dedup(source, tmp_path / "out", nearness=PRESETS["exact"])
    assert set(made.manifest.flow.reasons) == {"exact"}
    with pytest.raises(DataError, match="a different directory"):
        dedup(source, tmp_path / "in", nearness=OPENCODER)


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path):
    source = small_corpus(tmp_path / "in", planted_documents(), shards=6)
    dedup(source, tmp_path / "whole", nearness=PRESETS["loose"], workers=2)
    script = (
        "import sys; from pathlib import Path\n"
        "from dph_corpus.settings import PRESETS; from dph_corpus.dedup.run import dedup\n"
        "from dph_corpus.shards import open_corpus\n"
        "dedup(open_corpus(Path(sys.argv[1])), Path(sys.argv[2]), nearness=PRESETS['loose'])\n"
    )
    kill(script, [tmp_path / "in", tmp_path / "out"])
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
