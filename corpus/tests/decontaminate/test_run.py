import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import DataError, SettingsError
from dph_corpus.decontaminate import CHECKS, decontaminate, normalised_queries
from dph_corpus.documents import Document
from dph_corpus.shards import MOST_COUNTED
from small_corpora import dropped, rows_file, small_corpus

PROMPT = "def has_close(numbers, threshold): check if any two numbers are closer than that"
SQL = "SELECT name FROM singer WHERE age > 20 ORDER BY age"


@pytest.fixture
def tests(tmp_path):
    """Two small test sets: functions, and queries."""
    functions = [
        {"prompt": PROMPT, "entry_point": "has_close", "tests": ["one two three"]},
        {"prompt": "short", "entry_point": "__init__"},
    ]
    queries = [{"question": "Who?", "query": SQL, "db_id": "concert_singer"}]
    for name, rows in (("functions", functions), ("queries", queries)):
        rows_file(tmp_path / f"{name}.jsonl", rows)
    return {name: tmp_path / f"{name}.jsonl" for name in ("functions", "queries")}


def document(name, text, path="a.py", language="python", **facts):
    return Document.of(text, id=name, path=path, language=language, **facts)


DOCUMENTS = [
    document("clean", "def add(a, b):\n    return a + b\n"),
    document("copied", f"# {PROMPT.upper()}\n"),
    document("nine words", " ".join(PROMPT.replace("(", " ").split()[:9])),
    document("defines", "def has_close(x):\n    pass\n"),
    document("calls", "def main():\n    has_close(x)\n    def __init__(self): pass\n"),
    document("query", SQL.lower().replace(" ", "\n") + ";", "q.sql", "sql"),
    document("schema", "CREATE TABLE t (a)", "data/concert_singer/schema.sql", "sql"),
    document("named", "CREATE TABLE t (a)", "concert_singer.sql", "sql"),
]


def made(tmp_path, tests, checks=CHECKS):
    corpus = small_corpus(tmp_path / "in", DOCUMENTS)
    found = decontaminate(corpus, tmp_path / "out", sets=tests, checks=checks)
    return found, dropped(found)


def test_each_document_goes_for_what_it_shares_and_the_others_stay(tmp_path, tests):
    found, gone = made(tmp_path, tests)
    assert {name: row["reasons"] for name, row in gone.items()} == {
        "copied": ["words:functions"],
        "defines": ["entry_point:functions"],
        "query": ["words:queries", "query:queries"],
        "schema": ["database:queries"],
        "named": ["database:queries"],
    }
    assert gone["copied"]["note"] == " ".join(
        ["def", "has_close", "numbers", "threshold", "check", "if", "any", "two", "numbers", "are"]
    )
    # 13 words have 4 runs of 10
    assert gone["copied"]["value"] == 4
    counts = found.manifest.flow.counts
    assert counts["entry_point:functions has_close"] == 1
    assert counts["database:queries concert_singer"] == 2


def test_without_entry_points_a_name_alone_is_no_reason(tmp_path, tests):
    _, gone = made(tmp_path, tests, ["words", "query"])
    assert set(gone) == {"copied", "query"}


def test_another_test_set_makes_another_outcome_and_the_manifest_names_no_path(tmp_path, tests):
    found, _ = made(tmp_path, tests)
    step = found.manifest.history[-1]
    assert str(tmp_path) not in json.dumps(found.manifest.json())
    rows_file(tests["functions"], [{"prompt": "other", "entry_point": "add"}])
    again, gone = made(tmp_path, tests)
    assert "clean" in gone
    assert again.manifest.history[-1]["inputs"] != step["inputs"]


def test_a_set_that_cannot_be_read_and_an_unknown_check_are_bad_input(tmp_path, tests):
    with pytest.raises(SettingsError, match="got 'stars'"):
        made(tmp_path, tests, ["stars"])
    with pytest.raises(SettingsError, match="at least one test set"):
        made(tmp_path, {})
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="has no rows"):
        made(tmp_path, {"empty": tmp_path / "empty.jsonl"})


def test_the_input_is_not_written_into(tmp_path, tests):
    corpus = small_corpus(tmp_path / "in", [document("a", "text")])
    before = sorted(corpus.directory.rglob("*"))
    with pytest.raises(DataError, match="a different directory from the input"):
        decontaminate(corpus, corpus.directory, sets=tests)
    assert sorted(corpus.directory.rglob("*")) == before
    with pytest.raises(DataError, match="would be overwritten"):
        decontaminate(corpus, tests["queries"].parent, sets={"t": tmp_path / "tests.parquet"})


def test_numbers_alone_are_no_evidence(tmp_path):
    """A list of numbers is that of a hundred files; one word among them makes it one's own."""
    numbers = " ".join(str(n) for n in range(12))
    named = f"weights {numbers}"
    row = {"prompt": f"Sort {named}", "tests": ["0x1f 1e5 _ 2 " * 5, "a b c d e f g h i j k"]}
    path = rows_file(tmp_path / "tests.jsonl", [row])
    corpus = small_corpus(
        tmp_path / "in",
        [
            document("list", f"x = [{numbers.replace(' ', ', ')}]"),
            document("letters", "a, b, c, d, e, f, g, h, i, j, k"),
            document("hex", "0x1f, 1e5, _, 2, " * 5),
            document("named", named),
        ],
    )
    assert [*dropped(decontaminate(corpus, tmp_path / "out", sets={"t": path}))] == ["named"]


def test_what_is_counted_has_an_end(tmp_path):
    words = [[f"w{n}x{k}" for k in range(10)] for n in range(100)]
    path = rows_file(tmp_path / "tests.jsonl", [{"prompt": " ".join(each)} for each in words])
    documents = [document(f"d{n}", " ".join(each)) for n, each in enumerate(words)]
    found = decontaminate(
        small_corpus(tmp_path / "in", documents), tmp_path / "out", sets={"t": path}
    )
    counts = found.manifest.flow.counts
    assert len(counts) == MOST_COUNTED + 1
    assert counts["(60 others)"] == 60
    assert found.manifest.flow.reasons["words:t"].documents == 100


QUERY = "SELECT name FROM singer AS s WHERE s.age <> 20"


@pytest.mark.parametrize(
    "spelt",
    [
        "select NAME from singer s where s.AGE != 20",
        "SELECT `name`\nFROM [singer] s -- a comment\nWHERE s.age<>20;",
        '/* c */ SELECT "name" FROM singer AS s WHERE s . age != 20 ;;',
    ],
)
def test_spelling_does_not_count(spelt):
    assert list(normalised_queries(spelt)) == list(normalised_queries(QUERY))


@pytest.mark.parametrize(
    "other", [QUERY.replace("20", "21"), QUERY.replace("name", "id"), QUERY.replace("<>", "=")]
)
def test_what_is_asked_counts(other):
    assert list(normalised_queries(other)) != list(normalised_queries(QUERY))


def test_a_script_is_cut_into_its_statements_and_short_ones_are_anybodys():
    script = f"{QUERY}; SELECT count(*); SELECT 'a;b', c, d FROM t WHERE e = 1"
    first, second = normalised_queries(script)
    assert first == next(normalised_queries(QUERY))
    assert second.startswith("select 'a;b' , c")


@given(st.text())
def test_any_text_has_an_answer(text):
    assert all(isinstance(query, str) for query in normalised_queries(text))
