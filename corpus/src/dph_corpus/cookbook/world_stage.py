"""The stage ``world``: databases and questions, and of them SQL files, rows and problems."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from dph._base.files import (
    atomic_path,
    make_directory,
    read_json,
    sha256,
    write_json,
    write_json_lines,
)
from dph.records import Outcome, Problem
from dph.tasks.verifiers.sql.verifier import SQLVerifier
from dph_corpus.cookbook.settings import CookbookWorld
from dph_corpus.cookbook.stages import Digests, Kitchen
from dph_corpus.shards import digest
from lab.worlds.sql.question_sets import draw_any_questions, draw_questions, gold_sql
from lab.worlds.sql.questions import Question
from lab.worlds.sql.world import SQLWorld

VERSION = 1
"""Counts up when the same settings give other files."""
_MANIFEST = "sources.json"


def world_stage(kitchen: Kitchen) -> Digests:
    """Build the world and write ``sources``, once.

    ``sql/`` holds files of a schema and queries on it; ``annotators.jsonl`` what annotators answer,
    right or wrong; ``executed.jsonl`` those answers whose SQL was run and gave the right rows.
    Questions are drawn without looking at the tests: what they share is for later stages to find.
    """
    settings = kitchen.cookbook.world
    if settings is None:
        return {}
    with kitchen.progress.task("world", 1, "worlds") as advance:
        world = kitchen.world()
        advance(1, "")
    out = kitchen.directory / "sources"
    key = digest(
        [VERSION, settings.model_dump(mode="json"), kitchen.cookbook.seed, world.fingerprint]
    )
    found = read_json(out / _MANIFEST) if (out / _MANIFEST).is_file() else {}
    if found.get("key") != key or _digests(out) != found.get("digests"):
        with (
            kitchen.progress.task("sources", 3, "sources") as advance,
            atomic_path(out) as temporary,
        ):
            make_directory(temporary)
            _write_sql(world, settings, temporary / "sql")
            advance(1, "sql")
            questions = _questions(world, settings)
            _write_rows(world, settings, questions, temporary, workers=kitchen.workers)
            advance(2, "rows")
            write_json(temporary / _MANIFEST, {"key": key, "digests": _digests(temporary)})
    return {"world": world.fingerprint, **_digests(out)}


def _write_sql(world: SQLWorld, settings: CookbookWorld, directory: Path) -> None:
    """Files as people keep them: a schema, and queries under comments that say what they answer."""
    make_directory(directory)
    rng = _stream(world, "SQL files")
    for number in range(settings.files):
        database = world.in_domain[number % len(world.in_domain)]
        with closing(sqlite3.connect(world.databases_directory / database.relative_path)) as source:
            tables = [
                row[0] for row in source.execute("SELECT sql FROM sqlite_master ORDER BY name")
            ]
        lines = [f"-- Report {number}", "", *(f"{table};" for table in tables), ""]
        for question in draw_any_questions([database], settings.queries_per_file, rng):
            lines += [f"-- {question.text}", f"{gold_sql(question)};", ""]
        (directory / f"report-{number:05d}.sql").write_text("\n".join(lines), encoding="utf-8")


def _questions(world: SQLWorld, settings: CookbookWorld) -> list[Question]:
    rng = _stream(world, "questions")
    return draw_questions(world.in_domain, world.annotators, settings.questions, rng)


def _write_rows(
    world: SQLWorld,
    settings: CookbookWorld,
    questions: Sequence[Question],
    directory: Path,
    *,
    workers: int,
) -> None:
    rows = [*_answers(world, questions, settings.answers)]
    write_json_lines(directory / "annotators.jsonl", [row for row, _ in rows])
    with SQLVerifier(databases=world.databases_directory, workers=workers) as verifier:
        verdicts = verifier.grade(
            [problem for _, problem in rows], [row["response"] for row, _ in rows]
        )
    right = [
        row
        for (row, _), verdict in zip(rows, verdicts, strict=True)
        if verdict.outcome is Outcome.CORRECT
    ]
    write_json_lines(directory / "executed.jsonl", right)


def _answers(
    world: SQLWorld, questions: Sequence[Question], count: int
) -> Iterator[tuple[dict[str, Any], Problem]]:
    rng = _stream(world, "answers")
    paths = {database.name: database.relative_path for database in world.databases}
    for number, question in enumerate(questions):
        asked = {"gold_sql": gold_sql(question), "database": paths[question.domain.name]}
        for annotator in rng.sample(world.annotators, min(count, len(world.annotators))):
            row = {"prompt": question.prompt, "response": annotator.answer(question, rng)}
            name = f"question-{number:05d}"
            yield row, Problem(problem_id=name, prompt=question.prompt, answer=asked)


def _digests(directory: Path) -> dict[str, str]:
    files = sorted((directory / "sql").glob("*.sql"))
    return {
        "sql": digest([[path.name, sha256(path)] for path in files]),
        **{path.stem: sha256(path) for path in sorted(directory.glob("*.jsonl"))},
    }


def _stream(world: SQLWorld, purpose: str) -> Random:
    return Random(f"cookbook {world.seed}: {purpose}")
