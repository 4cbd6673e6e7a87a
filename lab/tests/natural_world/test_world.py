"""A world of a Spider that is made here: two databases to train on, two of the dev set."""

import json
import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("sqlglot", reason="needs sqlglot (lab/benchmarks/requirements.txt)")

from lab.benchmarks.natural_world.base_model import lessons_of_steps, texts_of
from lab.benchmarks.natural_world.questions import load_questions, spider_directory
from lab.benchmarks.natural_world.tokenizer import make_tokenizer
from lab.benchmarks.natural_world.world import build_world, words_of

TOWNS = ("Oslo", "Rome", "Bern", "Bonn", "Lund", "Nice")
GOLDS = {
    "How many towns?": "SELECT count(*) FROM town",
    "Count the towns.": "SELECT count(*) FROM town",
    "How large is the largest town?": "SELECT max(size) FROM town",
    "Which town is largest?": "SELECT name FROM town ORDER BY size DESC LIMIT 1",
    "Which towns have more than 25?": "SELECT name FROM town WHERE size > 25",
    "How large is 'Rome'?": 'SELECT size FROM town WHERE name = "Rome"',
    "Which towns are above 900?": "SELECT name FROM town WHERE size > 900",
}
TABLES = {
    "table_names_original": ["town"],
    "table_names": ["town"],
    "column_names_original": [[-1, "*"], [0, "town_id"], [0, "name"], [0, "size"]],
    "column_names": [[-1, "*"], [0, "town id"], [0, "name"], [0, "size"]],
    "column_types": ["text", "number", "text", "number"],
    "primary_keys": [1],
    "foreign_keys": [],
}


@pytest.fixture
def spider(tmp_path, monkeypatch):
    """The directory of the questions; the data's home is told as a user would."""
    root = tmp_path / "data" / "spider"
    asked = {}
    for split, names in (("train_spider", ("a", "b")), ("dev", ("c", "d"))):
        asked[split] = [
            {"db_id": name, "question": question, "query": gold}
            for name in names
            for question, gold in GOLDS.items()
        ]
        for number, name in enumerate(names):
            _write_database(root / "database" / name, name, number)
    for split, rows in asked.items():
        (root / f"{split}.json").write_text(json.dumps(rows))
    tables = [{"db_id": name, **TABLES} for name in "abcd"]
    (root / "tables.json").write_text(json.dumps(tables))
    monkeypatch.setenv("DPH_DATA", str(tmp_path / "data"))
    return root


def _write_database(directory, name, number):
    directory.mkdir(parents=True)
    rows = [(i, town, 10 * (i + 1) + number) for i, town in enumerate(TOWNS)]
    with closing(sqlite3.connect(directory / f"{name}.sqlite")) as connection:
        connection.execute("CREATE TABLE town (town_id INTEGER PRIMARY KEY, name, size)")
        connection.executemany("INSERT INTO town VALUES (?, ?, ?)", rows)
        connection.commit()


def test_data_that_are_absent_are_told_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("DPH_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="needs Spider's questions and databases in") as told:
        spider_directory()
    assert "\n" not in str(told.value)


def test_questions_come_with_forms_but_for_those_whose_rows_tell_nothing(spider, tmp_path):
    questions = load_questions(spider, tmp_path / "cache")
    assert {q.text for q in questions if q.db_id == "a"} == {
        "how many towns ?",
        "count the towns .",
        "how large is the largest town ?",
        "which town is largest ?",
        "which towns have more than 25 ?",
        'how large is " Rome " ?',
    }
    (largest,) = (q for q in questions if q.db_id == "a" and q.text == "which town is largest ?")
    assert set(largest.forms) == {"plain", "alias", "nested"}
    assert load_questions(spider, tmp_path / "cache") == questions


@pytest.mark.usefixtures("spider")
def test_a_world_holds_every_question_once_and_asks_some_without_answers(tmp_path):
    world = build_world(tmp_path / "world", tmp_path / "cache", seed=0)
    names = ("base", "train", "in_domain", "cross_domain", "unseen", "unlabelled")
    rows = {name: world.rows(name) for name in names}
    ids = [row["problem_id"] for of_set in rows.values() for row in of_set]
    assert len(ids) == len(set(ids)) == 24
    assert {row["db_id"] for row in rows["unseen"]} == {"c", "d"}
    assert all("gold_sql" not in row and "forms" not in row for row in rows["unlabelled"])
    assert all(row["prompt"].startswith("town : town_id name size | ") for row in rows["base"])
    before = [path.stat().st_mtime_ns for path in sorted(world.directory.iterdir())]
    build_world(tmp_path / "world", tmp_path / "cache", seed=0)
    assert before == [path.stat().st_mtime_ns for path in sorted(world.directory.iterdir())]


@pytest.mark.usefixtures("spider")
def test_lessons_are_the_questions_with_two_of_their_forms(tmp_path):
    world = build_world(tmp_path / "world", tmp_path / "cache", seed=0)
    rows = world.rows("base")
    tokenizer = make_tokenizer([*texts_of(world, rows)] * 2)
    (lessons,) = lessons_of_steps(rows, tokenizer, seed=0, steps=1)
    forms = {row["prompt"]: set(row["forms"].values()) for row in rows}
    for lesson in lessons:
        assert tokenizer.unk_token_id not in (*lesson.stem, *lesson.prompt)
        prompt = tokenizer.decode([*lesson.stem[1:], *lesson.prompt])
        answers = lesson.answers
        spoken = {
            tokenizer.decode(answers.options[answers.answer == n, 0], skip_special_tokens=True)
            for n in range(1, answers.answer.max() + 1)
        }
        assert spoken <= forms[prompt]
        assert len(spoken) == min(2, len(forms[prompt]))


def test_words_of_a_schema_are_counted_as_the_tokenizer_splits_them():
    assert words_of("singer : singer_id name ; concert : year") == 10
