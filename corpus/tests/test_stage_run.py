import json
from pathlib import Path

import pytest

from dph.errors import DataError, StageError
from dph_corpus.documents import Document
from dph_corpus.shards import open_corpus
from dph_corpus.stage import StageSpec
from dph_corpus.stage_run import run_stage
from dph_corpus.tables import read_table
from killed_corpora import kill
from small_corpora import bytes_of, dropped, numbered, small_corpus


def lengths(longest=6, **changes):
    settings = {"longest": longest}
    return StageSpec(
        name="lengths", entry="small_corpora:Lengths", settings=settings, **{"seconds": 5} | changes
    )


def test_documents_are_kept_or_dropped_with_their_reason_and_both_are_counted(tmp_path):
    source = small_corpus(tmp_path / "in", numbered(12), shards=3)
    made = run_stage(lengths(), source, tmp_path / "out", workers=2)
    kept = {document.id: document.text for document in made.documents()}
    # "text 7\n" has 7 characters, over the limit; nothing is shorter
    assert kept == {}
    made = run_stage(lengths(7), source, tmp_path / "out", workers=2)
    kept = {document.id: document.text for document in made.documents()}
    assert kept == {f"d{n}": f"TEXT {n}\n" for n in range(10)}
    gone = dropped(made)
    assert sorted(gone) == ["d10", "d11"]
    assert {(r["stage"], r["reason"], r["value"], r["threshold"]) for r in gone.values()} == {
        ("lengths", "long", 8.0, "> 7")
    }
    flow = made.manifest.flow
    assert flow.counts["characters"] == 10 * 7 + 2 * 8
    assert (flow.reasons["long"].documents, flow.reasons["long"].solo) == (2, 2)
    assert (flow.total().documents, flow.total().kept_documents) == (12, 10)
    table = list(read_table(tmp_path / "out" / "lengths.parquet"))
    assert {row["id"]: row["length"] for row in table} == {f"d{n}": 7 + (n > 9) for n in range(12)}


def test_the_documents_are_the_same_sequence_however_many_shards_there_are(tmp_path):
    documents = numbered(50)
    sequences, digests = [], set()
    for shards in (1, 5):
        source = small_corpus(tmp_path / f"in{shards}", documents[::-1], shards=shards)
        made = run_stage(lengths(7), source, tmp_path / f"out{shards}", workers=2)
        sequences.append([document.id for document in made.documents()])
        digests.add(made.manifest.content)
    assert all(sequence == sequences[0] for sequence in sequences)
    assert len(digests) == 1
    joined = {(tmp_path / f"out{n}" / "lengths.parquet").read_bytes() for n in (1, 5)}
    assert len(joined) == 1


def test_finished_shards_are_skipped_and_changed_ones_done_again(tmp_path):
    documents = numbered(40)
    source = small_corpus(tmp_path / "in", documents, shards=4)
    done = []
    run_stage(lengths(), source, tmp_path / "out", on_progress=lambda _, note: done.append(note))
    assert sorted(filter(None, done)) == [shard.name for shard in source.shards]
    before = bytes_of(tmp_path / "out")
    done.clear()
    run_stage(lengths(), source, tmp_path / "out", on_progress=lambda _, note: done.append(note))
    assert [*filter(None, done)] == []
    assert bytes_of(tmp_path / "out") == before
    changed = [d.with_text("x") if d.id == "d7" else d for d in documents]
    source = small_corpus(tmp_path / "in2", changed, shards=4)
    run_stage(lengths(), source, tmp_path / "out", on_progress=lambda _, note: done.append(note))
    assert len([*filter(None, done)]) == 1
    (tmp_path / "out" / "dropped" / source.shards[2].name).write_bytes(b"damaged")
    done.clear()
    run_stage(lengths(), source, tmp_path / "out", on_progress=lambda _, note: done.append(note))
    assert [*filter(None, done)] == [source.shards[2].name]


def test_a_document_that_hangs_or_kills_its_worker_costs_itself_alone(tmp_path):
    documents = [
        *numbered(20),
        Document.of("sleep", id="slow", path="s"),
        Document.of("die", id="deadly", path="d"),
    ]
    source = small_corpus(tmp_path / "in", documents, shards=2)
    made = run_stage(lengths(9, seconds=4.0), source, tmp_path / "out", workers=2)
    assert {d.id for d in made.documents()} == {f"d{n}" for n in range(20)}
    reasons = made.manifest.flow.reasons
    assert reasons["time"].examples == ["slow"]
    assert reasons["crash"].examples == ["deadly"]


def test_a_stage_that_raises_is_an_error_that_names_the_shard_and_leaves_no_manifest(tmp_path):
    source = small_corpus(tmp_path / "in", [Document.of("raise", id="bad", path="b")])
    with pytest.raises(StageError, match=r"part-00000-of-00001.*ArithmeticError: bad"):
        run_stage(lengths(), source, tmp_path / "out")
    with pytest.raises(DataError, match="is not a corpus"):
        open_corpus(tmp_path / "out")


def test_a_stage_does_not_write_over_its_own_input(tmp_path):
    source = small_corpus(tmp_path / "in", numbered(2))
    with pytest.raises(DataError, match="a different directory"):
        run_stage(lengths(), source, tmp_path / "in")


@pytest.mark.parametrize("often", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path, often):
    source = small_corpus(tmp_path / "in", numbered(4000), shards=16)
    run_stage(lengths(7), source, tmp_path / "whole", workers=2)
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from test_stage_run import lengths, run_stage, open_corpus\n"
        "run_stage(lengths(7), open_corpus(Path(sys.argv[2])), Path(sys.argv[3]), workers=2)\n"
    )
    words = [Path(__file__).parent, tmp_path / "in", tmp_path / "out"]
    kill(script, words, once=None if often else tmp_path / "out")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
    json.loads((tmp_path / "out" / "manifest.json").read_text())
