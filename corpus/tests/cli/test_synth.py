"""``dph-corpus synth``, as a user calls it."""

import json
import sqlite3

import pytest

from dph_corpus.cli import main

QUERY = "SELECT name FROM pet WHERE kind = 'cat' AND age > 3"


def write_queries(prompts, _seeds):
    """A generator for ``--generator``: the same good query about every database."""
    return [f"Question: Which cats are older than three?\n\n```sql\n{QUERY}\n```"] * len(prompts)


@pytest.fixture
def databases(tmp_path):
    (tmp_path / "databases" / "pets").mkdir(parents=True)
    with sqlite3.connect(tmp_path / "databases" / "pets" / "pets.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE pet (name TEXT, age INT, kind TEXT); INSERT INTO pet VALUES "
            "('Rex', 3, 'dog'), ('Tom', 5, 'cat'), ('Ann', 4, 'cat'), ('Bo', 9, 'dog');"
        )
    connection.close()
    return tmp_path / "databases"


def test_queries_over_databases_become_rows_and_problems(databases, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["synth", "--kind", "sql", "--databases", str(databases), "--out", str(out)]
    words += [
        "--generator",
        "corpus.tests.cli.test_synth:write_queries",
        "--samples",
        "2",
        "--workers",
        "1",
    ]
    assert main([*words, "--json"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["documents"] == 1
    assert manifest["flow"]["reasons"]["repeated"]["documents"] == 1
    (problem,) = [json.loads(line) for line in (out / "problems.jsonl").read_text().splitlines()]
    assert problem["gold_sql"] == QUERY
    assert "CREATE TABLE pet" in problem["prompt"]


def test_functions_from_documents_are_judged_and_counted(tmp_path, capsys):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("def f(x):\n    return x\n")
    words = ["synth", "--kind", "functions", "--input", str(tmp_path / "code")]
    words += ["--generator", "corpus.tests.synth.small_generators:honest", "--workers", "1"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert "synth: kept 1 of 1 documents" in capsys.readouterr().out
