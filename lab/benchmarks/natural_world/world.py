"""The files of a natural world, and what a recipe on it says."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, sha256, write_json, write_text
from dph.tasks.sql.schema import Schema, read_tables
from lab.benchmarks.natural_world.questions import Question, load_questions, spider_directory
from lab.benchmarks.natural_world.sets import EVALUATED, draw_sets
from lab.worlds.sql.kind import OPTIMIZER
from lab.worlds.world import MANIFEST, PARTS, UNLABELLED, is_complete

SCHEMA = 1
MAX_TOKENS = 64
LONGEST_SCHEMA = 150
"""Databases whose schema has more words are left out: prompts are short, and so are batches."""
THRESHOLD = 5
"""Right answers of 8 from which on a problem is rehearsed: the base is seldom right 7 times."""


@dataclass(frozen=True)
class World:
    """A built world: ``directory`` holds base, train, unlabelled and the evaluation sets."""

    directory: Path
    seed: int
    spider: Path

    def problems_path(self, name: str) -> Path:
        """The file of a set."""
        return self.directory / f"{name}.jsonl"

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a set."""
        text = self.problems_path(name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


def schema_text(schema: Schema) -> str:
    """Every table with its columns; nothing of the question decides what is there.

    ``singer : singer_id name ; concert : concert_id ...``
    """
    tables = (f"{t.name} : {' '.join(c.name for c in t.columns)}" for t in schema.tables)
    return " ; ".join(tables).lower()


def words_of(schema: str) -> int:
    """Words and signs of a schema's text; a name with underscores has several.

    >>> words_of("singer : singer_id name")
    6
    """
    return len(re.findall(r"[^\W_]+|[_:;]", schema))


def build_world(directory: Path, cache: Path, *, seed: int) -> World:
    """Draw the sets and write them, unless they are there; ``cache`` keeps checked forms.

    Raises:
        SystemExit: Spider is not there.
        DataError: ``directory`` holds another world.
    """
    world = World(directory, seed, spider_directory())
    made_from = {"schema": SCHEMA, "seed": seed}
    if is_complete(directory, made_from):
        return world
    schemas = {
        name: text
        for name, schema in read_tables(world.spider / "tables.json").items()
        if words_of(text := schema_text(schema)) <= LONGEST_SCHEMA
    }
    known = [q for q in load_questions(world.spider, cache) if q.db_id in schemas]
    sets = draw_sets(known, seed=seed)
    asked = {part: sets.pop(part) for part in PARTS}
    files: dict[str, list[dict[str, Any]]] = {
        name: [_row(question, schemas) for question in of_set] for name, of_set in sets.items()
    }
    files[UNLABELLED] = [
        _without_answer(question, schemas) | {"part": part}
        for part in PARTS
        for question in asked[part]
    ]
    make_directory(directory)
    for name, rows in files.items():
        write_text(world.problems_path(name), _lines(rows))
    hashes = {f"{name}.jsonl": sha256(world.problems_path(name)) for name in files}
    counts = {name: len(rows) for name, rows in files.items()}
    write_json(directory / MANIFEST, {**made_from, "counts": counts, "sha256": hashes})
    return world


def _without_answer(question: Question, schemas: Mapping[str, str]) -> dict[str, Any]:
    return {
        "problem_id": question.id,
        "prompt": f"{schemas[question.db_id]} | {question.text} ->",
        "database": f"{question.db_id}/{question.db_id}.sqlite",
        "db_id": question.db_id,
    }


def _row(question: Question, schemas: Mapping[str, str]) -> dict[str, Any]:
    forms = dict(question.forms)
    return _without_answer(question, schemas) | {"gold_sql": forms["plain"], "forms": forms}


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def natural_settings(world: World, sets: Sequence[str] = EVALUATED) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``sampling``, ``presample`` and ``train`` of a recipe."""
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in sets},
            "verifier": "sql",
            "styles": "lab.benchmarks.natural_world.styles:form_of",
            "databases": str(world.spider / "database"),
        },
        "sampling": {"max_tokens": MAX_TOKENS},
        "presample": {"samples": 8, "threshold": THRESHOLD},
        "train": dict(OPTIMIZER),
    }
