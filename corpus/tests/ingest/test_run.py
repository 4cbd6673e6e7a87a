import os
import random
import zipfile
from pathlib import Path

import pytest

from dph.errors import DataError, SettingsError
from dph_corpus.documents import position
from dph_corpus.ingest import run, spill
from dph_corpus.ingest.run import ingest, open_input
from dph_corpus.ingest.sources import plan
from dph_corpus.ingest.spill import ReadUnit
from dph_corpus.running import BOARDS
from dph_corpus.shards import MANIFEST
from dph_corpus.steps import Care
from dph_corpus.tables import read_table
from killed_corpora import kill
from small_corpora import bytes_of, rows_file


def made(count):
    return [
        {"id": f"d{n}", "text": f"text {n}\n" * 20, "path": f"{n}.py", "stars": n % 5}
        for n in range(count)
    ]


def test_a_directory_becomes_documents_and_what_cannot_is_counted(tmp_path):
    home = tmp_path / "project"
    (home / "src").mkdir(parents=True)
    (home / ".git-not").mkdir()
    (home / "src" / "a.py").write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    (home / "binary").write_bytes(b"a\0b")
    (home / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    (home / "link.py").symlink_to("/etc/passwd")
    (home / "loop").symlink_to(".")
    (home / "big.csv").write_bytes(b"x" * 8_000_001)
    os.mkfifo(home / "pipe")
    corpus = ingest(plan([str(home)]), tmp_path / "out", workers=2)
    (document,) = corpus.documents()
    assert (document.id, document.text) == ("project/src/a.py", "\ufeffx = 1\r\n")
    assert (document.language, document.source, document.repo) == ("python", "project", "project")
    assert corpus.manifest.flow.skipped == {
        "binary": 1,
        "undecodable": 1,
        "link": 2,
        "oversized": 1,
        "special": 1,
    }
    skipped = list(read_table(tmp_path / "out" / "skipped.parquet"))
    assert ("project", "pipe", "special") in [
        (r["source"], r["path"], r["reason"]) for r in skipped
    ]


def test_neither_order_nor_cutting_nor_workers_nor_shards_change_the_documents(tmp_path):
    rows = made(300)
    one = rows_file(tmp_path / "one.jsonl", rows)
    whole = ingest(plan([f"x={one}"]), tmp_path / "a", shards=1, workers=1)
    random.Random(0).shuffle(rows)
    two = rows_file(tmp_path / "two.jsonl", rows)
    again = ingest(plan([f"x={two}"]), tmp_path / "b", shards=1, workers=2)
    assert whole.path(whole.shards[0]).read_bytes() == again.path(again.shards[0]).read_bytes()
    for shards in (4,):
        cut = ingest(plan([f"x={one}"]), tmp_path / f"c{shards}", shards=shards, workers=2)
        assert len(cut.shards) == shards
        assert list(cut.documents()) == list(whole.documents())
        assert cut.manifest.content == whole.manifest.content
        assert cut.find("d7") == next(d for d in whole.documents() if d.id == "d7")
        assert cut.find("nobody") is None


def test_spills_are_merged_until_a_shard_opens_few_of_them(tmp_path, monkeypatch):
    """Nine inputs, of which two are merged at a time, four times over: the same bytes."""
    inputs = []
    for n in range(9):
        rows = [row | {"id": f"{row['id']}-{n % 8}"} for row in made(40)]
        inputs.append(f"x{n}={rows_file(tmp_path / f'{n}.jsonl', rows)}")
    ingest(plan(inputs), tmp_path / "plain", shards=16)
    opened = {}
    cutting = run._cutting

    def watched(runs, out, shards):
        steps = cutting(runs, out, shards)
        opened[shards] = [len(step.spills) for step in steps]
        return steps

    monkeypatch.setattr(run, "_cutting", watched)
    monkeypatch.setattr(run, "_MOST_RUNS", 2)
    ingest(plan(inputs), tmp_path / "merged", shards=16, workers=2)
    assert bytes_of(tmp_path / "merged") == bytes_of(tmp_path / "plain")
    assert max(opened[16]) <= 2  # pieces of so few documents are one file of each run


def test_a_merged_run_is_cut_into_pieces_with_their_ranges(tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "_SPILL_BYTES", 1500)
    monkeypatch.setattr(spill, "_GROUP_BYTES", 300)
    runs = []
    for n in range(3):
        unit = plan([f"x={rows_file(tmp_path / f'{n}.jsonl', made(50)[n::3])}"])[0]
        step = ReadUnit(name="r", key="k", unit=unit, out=tmp_path / f"read{n}")
        names = sorted(step.do(Care(lambda *_: None))["files"])
        runs += [[step.out / name] for name in names if name != "skipped.parquet"]
    assert len(runs) > 3
    merge = spill.MergeSpills(name="m", key="k", runs=runs, out=tmp_path / "merged")
    answer = merge.do(Care(lambda *_: None))
    assert len(answer["files"]) > 1
    places = []
    for name, (first, last) in sorted(answer["ranges"].items()):
        rows = [row["position"] for row in read_table(merge.place(name))]
        assert (rows[0], rows[-1]) == (first, last)
        places += rows
    assert places == sorted(position(f"d{n}") for n in range(50))


def test_of_the_same_id_the_one_with_most_stars_stays_and_the_others_are_told(tmp_path):
    rows = [
        {"id": "a", "text": "one", "stars": 1},
        {"id": "a", "text": "two", "stars": 2},
        {"id": "a", "text": "two", "stars": 1},
    ]
    corpus = ingest(plan([str(rows_file(tmp_path / "a.jsonl", rows))]), tmp_path / "out")
    assert [document.text for document in corpus.documents()] == ["two"]
    reasons = corpus.manifest.flow.reasons
    assert {name: reason.documents for name, reason in reasons.items()} == {
        "id_taken": 1,
        "id_repeated": 1,
    }


def test_facts_on_the_sources_come_from_a_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "kit-1.0.zip", "w") as archive:
        archive.writestr("kit-1.0/a.py", "x = 1\n")
    about = tmp_path / "about.csv"
    about.write_text("source,stars,licence,commit_time,url\nkit-1.0,7,MIT,99,https://a.b\n")
    corpus = ingest(plan([str(tmp_path / "kit-1.0.zip")], about=about), tmp_path / "out")
    (document,) = corpus.documents()
    assert (document.stars, document.licence, document.commit_time) == (7, "MIT", 99)
    assert document.id == "kit-1.0/a.py"
    about.write_text("source,stars\nother,7\n")
    with pytest.raises(DataError, match="'other', which is not an input"):
        plan([str(tmp_path / "kit-1.0.zip")], about=about)
    about.write_text("source,stars\nkit-1.0,many\n")
    with pytest.raises(DataError, match="stars must be a number"):
        plan([str(tmp_path / "kit-1.0.zip")], about=about)


def test_inputs_that_cannot_be_told_apart_or_read_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "src").mkdir(parents=True)
    with pytest.raises(DataError, match="NAME=PATH"):
        plan([str(tmp_path / "a" / "src"), str(tmp_path / "b" / "src")])
    plan([f"one={tmp_path / 'a' / 'src'}", str(tmp_path / "b" / "src")])
    with pytest.raises(DataError, match="there is no file"):
        plan([str(tmp_path / "none.jsonl")])
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(DataError, match=r"ends in one of .*\.jsonl"):
        plan([str(tmp_path / "a.docx")])
    with pytest.raises(SettingsError, match="shards must lie in"):
        ingest([], tmp_path / "out", shards=0)


def test_done_again_it_reads_nothing_and_a_changed_input_is_read(tmp_path):
    path = rows_file(tmp_path / "a.jsonl", made(5))
    ingest(plan([str(path)]), tmp_path / "out")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.parquet")}
    ingest(plan([str(path)]), tmp_path / "out")
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.parquet")}
    rows_file(path, made(6))
    assert ingest(plan([str(path)]), tmp_path / "out").manifest.documents == 6
    assert not (tmp_path / "out" / ".spills").exists()


def test_a_corpus_of_other_inputs_is_replaced_with_a_word(tmp_path, caplog):
    for text in ("one", "two"):
        rows_file(tmp_path / f"{text}.jsonl", [{"id": "a", "text": text}])
    first, second, out = tmp_path / "one.jsonl", tmp_path / "two.jsonl", tmp_path / "out"
    for _ in range(2):
        ingest(plan([str(first)]), out)
    assert caplog.text == ""
    corpus = ingest(plan([str(second)]), out)
    assert f"{out} was made from other inputs or in other shards: replaced" in caplog.text
    assert [document.text for document in corpus.documents()] == ["two"]


@pytest.mark.parametrize("board", BOARDS)
def test_a_stage_that_was_killed_is_no_input(tmp_path, board):
    corpus = open_input(rows_file(tmp_path / "a.jsonl", made(3)), tmp_path / "out")
    (corpus.directory / MANIFEST).unlink()
    (corpus.directory / board).mkdir(parents=True)
    (corpus.directory / board / "note.json").write_text("{}")
    with pytest.raises(DataError, match="run its stage to the end"):
        open_input(corpus.directory, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_source_that_cost_two_workers_is_counted_and_the_others_are_read(tmp_path):
    units = plan([str(rows_file(tmp_path / "bad.jsonl", made(3)))])
    step = ReadUnit(name="a", key="k", unit=units[0], out=tmp_path / "spill")
    told = []

    def tell(name, _seconds):
        told.append(name)

    answer = step.do(Care(tell, careful=True, given_up={"bad": "crash"}))
    assert answer["flow"]["skipped"] == {"source_crash": 1}
    assert list(answer["files"]) == ["skipped.parquet"]
    step.do(Care(tell, careful=True))
    assert set(told) == {"bad"}


def test_shards_that_no_worker_could_hold_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dph_corpus.ingest.run._LARGEST_SHARD", 100)
    units = plan([str(rows_file(tmp_path / "a.jsonl", made(2)))])
    with pytest.raises(SettingsError, match="need at least 3"):
        ingest(units, tmp_path / "out", shards=1)


def test_a_directory_of_files_of_rows_is_rows_however_many_there_are(tmp_path):
    rows, made_of = made(30), []
    for shards in (1, 3):
        home = tmp_path / f"rows{shards}"
        home.mkdir()
        for index in range(shards):
            rows_file(home / f"{index}.jsonl", rows[index::shards])
        corpus = open_input(home, tmp_path / f"out{shards}")
        made_of.append(corpus.path(corpus.shards[0]).read_bytes())
    assert corpus.manifest.documents == 30
    assert open_input(corpus.directory, tmp_path / "other").manifest == corpus.manifest
    assert made_of[0] == made_of[1]
    (home / "README").write_text("not a row")
    assert {unit.kind for unit in plan([str(home)])} == {"directory"}


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path):
    files = [str(rows_file(tmp_path / f"{n}.jsonl", made(40 + n))) for n in range(8)]
    ingest(plan(files), tmp_path / "whole", shards=4, workers=2)
    script = (
        "import sys; from pathlib import Path\n"
        "from dph_corpus.ingest import run; from dph_corpus.ingest.sources import plan\n"
        "run._MOST_RUNS = 2\n"
        "run.ingest(plan(sys.argv[2:]), Path(sys.argv[1]), shards=4, workers=2)\n"
    )
    kill(script, [tmp_path / "out", *files])
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
    assert Path(tmp_path / "out" / "manifest.json").is_file()


def test_names_that_are_not_utf8_are_escaped(tmp_path):
    home = tmp_path / "project"
    home.mkdir()
    for name in (b"caf\xe9.py", "caf\u00e9.py".encode()):
        Path(os.fsdecode(os.path.join(os.fsencode(home), name))).write_text(f"x = {name!r}\n")  # noqa: PTH118
    corpus = ingest(plan([str(home)]), tmp_path / "out")
    assert {d.path for d in corpus.documents()} == {"caf\\udce9.py", "caf\u00e9.py"}
    assert ingest(plan([str(home)]), tmp_path / "out").manifest == corpus.manifest


@pytest.mark.parametrize("suffix", ["py", "jsonl"])
def test_a_corpus_inside_of_its_source_is_no_part_of_it(tmp_path, suffix):
    home = tmp_path / "project"
    home.mkdir()
    rows_file(home / f"a.{suffix}", made(3))
    out = home / "corpus"
    first = ingest(plan([str(home)], out=out), out)
    again = ingest(plan([str(home)], out=out), out)
    assert again.manifest == first.manifest
    assert len(list(first.documents())) == (3 if suffix == "jsonl" else 1)
    with pytest.raises(DataError, match="is an input: write the corpus to another directory"):
        plan([str(home)], out=home)
