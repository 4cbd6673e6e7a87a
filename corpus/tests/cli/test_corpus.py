import json

import pytest

from dph_corpus.cli import main
from small_corpora import rows_file


@pytest.fixture
def rows(tmp_path):
    """Four rows: two copies, another file, and one without text."""
    text = "a b c d e f g h\n"
    found = [
        {"id": name, "text": text, "path": f"{name}.py", "stars": n} for n, name in enumerate("ab")
    ]
    found += [{"id": "c", "text": "other\n", "path": "[bold]c.sql"}, {"id": "d"}]
    return rows_file(tmp_path / "rows.jsonl", found)


def test_from_a_file_of_rows_to_a_corpus_without_copies(rows, tmp_path, capsys):
    assert main(["ingest", str(rows), "--out", str(tmp_path / "raw"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["documents"], told["flow"]["skipped"]) == (3, {"no_text": 1})
    words = ["--input", str(tmp_path / "raw"), "--out", str(tmp_path / "one")]
    assert main(["dedup", *words]) == 0
    printed = capsys.readouterr().out
    assert "dedup: kept 2 of 3 documents" in printed
    assert main(["show", str(tmp_path / "one"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["flow"]["reasons"]["exact"]["examples"] == ["a"]
    assert [step["stage"] for step in told["history"]] == ["ingest", "dedup"]


ROWS, OUT = ("--input", "{rows}", "--out", "{out}"), ("--out", "{out}")
INSTRUCT = ("instruct", "--part", "a={rows}", *OUT)
RECALL = ("recall", *ROWS, "--seeds", "{rows}")
SYNTH = ("synth", *OUT, "--kind")
DOCUMENTATION = (*SYNTH, "documentation", "--modules", "math")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("dedup", *ROWS, "--preset", "near"), "opencoder, loose"),
        (("dedup", "--input", "{out}/none", *OUT), "there is no file"),
        (("dedup", *ROWS, "--engine", "ray"), "--engine no longer exists: stages run in processes"),
        (("ingest", "{rows}", *OUT, "--column", "x=y"), "FIELD=NAME"),
        (("ingest", "{rows}", "{rows}", *OUT), "NAME=PATH"),
        (("ingest", "{rows}", "--out", "{rows}"), "cannot write into"),
        (("show", "{out}"), "is not a corpus"),
        (("decontaminate", *ROWS, "--tests", "x"), "NAME=VALUE"),
        (("filter", *ROWS, "--preset", "paper"), "'paper' is not one of opencoder, fixed, sql"),
        (("explain", "x", "{out}"), "has no finished stage on documents"),
        (("tune", "{out}", "--page=a.html"), "--page=a.html no longer exists"),
        ((*RECALL, "--threshold", "1.5"), "the threshold must lie in (0, 1), got 1.5"),
        ((*RECALL, "--classifier", "sklearn"), "--classifier no longer exists: recall learns by"),
        ((*INSTRUCT, "--rows", "a=4", "--stage", "stage1"), "not both"),
        (INSTRUCT, "give --rows NAME=COUNT for each part, or --stage"),
        ((*INSTRUCT, "--stage", "stage3"), "--stage is one of stage1, stage2, got 'stage3'"),
        ((*INSTRUCT, "--rows", "a=few"), "--rows a must be a whole number, got 'few'"),
        ((*INSTRUCT, "--stage", "stage1"), "rows diverse, infinity, realuser"),
        ((*SYNTH, "sql", "--generator", "a:b"), "--kind sql takes only --databases"),
        ((*SYNTH, "functions", "--modules", "math"), "--kind functions takes only --input"),
        ((*SYNTH, "documentation", "--modules", "os", "--generator", "a:b"), "'os' is not among"),
        (DOCUMENTATION, "name a writer"),
        ((*SYNTH, "poems"), "'poems' is not one of functions, instructions"),
        (
            (*DOCUMENTATION, "--model", "m", "--server", "http://x", "--key-env", "NO_SUCH_KEY"),
            "set NO_SUCH_KEY",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message, rows, tmp_path, capsys):
    given = [word.format(rows=rows, out=tmp_path / "out") for word in words]
    assert main(given) == 2
    lines = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("dph-corpus:")
    ]
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "out" / "manifest.json").exists()
