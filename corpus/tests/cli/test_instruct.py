import json

import pytest

from dph_corpus.cli import main
from small_corpora import rows_file


@pytest.fixture
def part(tmp_path):
    rows = [{"prompt": f"p{n}", "response": f"r{n}"} for n in range(6)]
    return rows_file(tmp_path / "rows.jsonl", rows)


def test_it_says_what_was_taken_and_left_out(part, tmp_path, capsys):
    out = tmp_path / "out"
    asked = ["instruct", "--part", f"a={part}", "--rows", "a=4", "--out", str(out)]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert said == f"a: 4 of 6 rows\nleft out for quota: 2\n4 rows -> {out}/rows.jsonl\n"
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["taken"] == {"a": 4}


def test_an_input_is_never_written_over(part, tmp_path, capsys):
    before = part.read_bytes()
    asked = ["instruct", "--part", f"a={part}", "--rows", "a=4", "--out", str(tmp_path)]
    assert main(asked) == 2
    assert "is an input and would be overwritten" in capsys.readouterr().err
    assert part.read_bytes() == before
