import json

import pytest

from case_tables import table
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


@pytest.mark.parametrize(("words", "message"), table("cli/cases.toml")["refused"])
def test_bad_input_is_one_line_and_exit_code_2(words, message, rows, tmp_path, capsys):
    given = [word.format(rows=rows, out=tmp_path / "out") for word in words]
    assert main(given) == 2
    lines = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("dph-corpus:")
    ]
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "out" / "manifest.json").exists()
