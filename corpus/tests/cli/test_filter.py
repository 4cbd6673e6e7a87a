"""The verbs that filter, transform and explain, as a user calls them."""

import json

import pyarrow.parquet as pq
import pytest

from dph_corpus.cli import main
from dph_corpus.rules.presets import rules_document
from small_corpora import GOOD, rows_file

MARKED = "# Copyright 2020 A. Person\n" + GOOD.replace('numbers"', 'numbers of ida@mail.org"')
ROWS = [
    {"id": "good", "text": MARKED, "path": "src/good.py", "lang": "en"},
    {"id": "bad", "text": "print 'x'\n", "path": "src/bad.py", "bytes": 10, "lang": "en"},
    {"id": "drawing", "text": "<svg/>", "path": "a.svg", "bytes": 6, "lang": "en"},
]


@pytest.fixture
def rows(tmp_path):
    return rows_file(tmp_path / "files.jsonl", ROWS)


def ids(directory):
    return {
        row["id"]
        for path in sorted(directory.glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    }


def test_filter_writes_verdicts_and_parts_of_what_was_kept_and_dropped(rows, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["filter", "--input", str(rows), "--preset", "opencoder", "--out", str(out)]
    assert main([*words, "--workers", "1"]) == 0
    assert "kept 1 of 3 documents" in capsys.readouterr().out
    assert (ids(out / "kept"), ids(out / "dropped")) == ({"good"}, {"bad", "drawing"})
    verdicts = pq.read_table(out / "verdicts.parquet").to_pylist()
    assert {"id", "rule", "value", "fires"} <= set(verdicts[0])
    fired = {row["rule"] for row in verdicts if row["id"] == "bad" and row["fires"]}
    assert "qsc_codepython_cate_ast" in fired
    assert main(["explain", "bad", str(out)]) == 0
    told = capsys.readouterr().out
    assert "filter" in told
    assert "dropped for qsc_code_num_words (value 2.0; threshold < 30" in told


def test_explain_follows_a_document_through_the_stages(rows, tmp_path, capsys):
    stages = tmp_path / "stages"
    assert main(["ingest", str(rows), "--out", str(stages / "a"), "--workers", "1"]) == 0
    for verb, source, out in (("transform", "a", "b"), ("filter", "b", "c")):
        words = [verb, "--input", str(stages / source), "--out", str(stages / out)]
        assert main([*words, "--workers", "1"]) == 0
    turns = tmp_path / "turns.jsonl"
    turns.write_text('{"prompt": "a", "response": "b"}\n')
    beside = ["--part", f"a={turns}", "--rows", "a=1", "--out", str(stages / "d")]
    assert main(["instruct", *beside]) == 0
    capsys.readouterr()
    assert main(["explain", "good", str(stages), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["stages"]
    assert [word["stage"] for word in told] == ["ingest", "transform", "filter"]
    assert all(word["kept"] for word in told)
    assert {(r["kind"], r["count"]) for r in told[1]["rows"]["changes"]} == {
        ("email", 1),
        ("notice", 1),
    }
    assert told[0]["kept"]["sha256"] != told[1]["kept"]["sha256"] == told[2]["kept"]["sha256"]
    assert any(row["rule"] == "python_parses" for row in told[2]["rows"]["verdicts"])


def test_rules_are_listed_with_those_that_never_fire(capsys):
    assert main(["rules", "--preset", "opencoder"]) == 0
    assert capsys.readouterr().out.count("never fires: ") == 3
    assert main(["rules", "--preset", "fixed", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert "qsc_codejavascript_cate_ast" in listed["left_out"]
    assert main(["rules", "--markdown"]) == 0
    assert capsys.readouterr().out == rules_document()
