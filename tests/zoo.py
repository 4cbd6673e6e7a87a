"""A small database, and data sets about it in the official layouts."""

import json
import sqlite3
from contextlib import closing

TABLES = {
    "db_id": "zoo",
    "table_names_original": ["keeper", "animal"],
    "table_names": ["keeper", "animal"],
    "column_names_original": [
        *([-1, "*"], [0, "id"], [0, "Name"], [1, "id"], [1, "kind"], [1, "Year"], [1, "kpr"])
    ],
    "column_names": [
        *([-1, "*"], [0, "id"], [0, "name"], [1, "id"], [1, "kind of animal"]),
        *([1, "year"], [1, "keeper id"]),
    ],
    "column_types": ["text", "number", "text", "number", "text", "number", "number"],
    "primary_keys": [1, [3]],
    "foreign_keys": [[6, 1]],
}

SCRIPT = """
CREATE TABLE keeper (id INTEGER PRIMARY KEY, Name TEXT);
CREATE TABLE animal (
  id INTEGER PRIMARY KEY, kind TEXT, "Year" INT, kpr INT REFERENCES keeper (id)
);
INSERT INTO keeper VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cy O''Neil');
INSERT INTO animal VALUES (1, 'lion', 2001, 1), (2, 'lion', 2003, 1), (3, 'tiger', 2002, 2),
  (4, 'grey wolf', 2002, NULL), (5, '', NULL, 3), (6, '42', NULL, 3);
"""

SCHEMA_TEXT = """\
CREATE TABLE keeper (
    id number, -- example: [1, 2]
    Name text, -- example: ['Ann', 'Bob']
    PRIMARY KEY (id)
);

CREATE TABLE animal (
    id number, -- example: [1, 2]
    kind text, -- kind of animal, example: ['lion', 'tiger']
    `Year` number, -- example: [2001, 2003]
    kpr number, -- keeper id, example: [1, 2]
    PRIMARY KEY (id),
    CONSTRAINT fk_animal_kpr FOREIGN KEY (kpr) REFERENCES keeper (id)
);"""

QUESTIONS = [
    ("How many lions?", "SELECT count(*) FROM animal WHERE kind = 'lion'"),
    ("Which bears?", "SELECT id FROM animal WHERE kind = 'bear'"),
    ("How many bears?", "SELECT count(*) FROM animal WHERE kind = 'bear'"),
    ("What?", "SELECT nothing FROM animal"),
]


def write_database(directory, name="zoo"):
    path = directory / name / f"{name}.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCRIPT)
    return path


def write_spider(directory):
    write_database(directory / "database")
    rows = [{"db_id": "zoo", "question": q, "query": sql, "sql": {}} for q, sql in QUESTIONS]
    (directory / "tables.json").write_text(json.dumps([TABLES]))
    (directory / "dev.json").write_text(json.dumps(rows))
    (directory / "train_spider.json").write_text(json.dumps(rows[:3]))
    (directory / "train_others.json").write_text(json.dumps(rows[3:]))
    return directory


def write_bird(directory):
    write_database(directory / "dev_databases")
    rows = [
        {
            "question_id": 10 + number,
            "db_id": "zoo",
            "question": question,
            "evidence": "lions are kind = 'lion'" if number == 0 else "",
            "SQL": sql,
            "difficulty": "simple",
        }
        for number, (question, sql) in enumerate(QUESTIONS)
    ]
    (directory / "dev_tables.json").write_text(json.dumps([TABLES]))
    (directory / "dev.json").write_text(json.dumps(rows))
    (directory / "mini_dev_sqlite.json").write_text(json.dumps(rows[:1]))
    return directory
