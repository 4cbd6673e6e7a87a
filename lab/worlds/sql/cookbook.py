"""The text-to-SQL world as ``[world]`` of a cookbook: SQL files, rows and problems."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from pydantic import Field

from dph._base.files import (
    atomic_path,
    make_directory,
    read_json,
    sha256,
    write_json,
    write_json_lines,
)
from dph.recipe.section import Positive, Section, checked
from dph.records import Outcome, Problem
from dph.tasks.verifiers.sql.verifier import SQLVerifier
from dph_corpus.cookbook.stages import MadeWorld
from dph_corpus.shards import digest
from lab.worlds.sql.kind import SQLWorldSizes, sql_settings
from lab.worlds.sql.question_sets import draw_any_questions, draw_questions, gold_sql
from lab.worlds.sql.questions import Question
from lab.worlds.sql.world import SQLWorld, build_world
from lab.worlds.world import fingerprint

VERSION = 1
"""Counts up when the same settings give other files."""
SETS = ("in_domain",)
"""The evaluation sets that fine-tuning and RL are about."""
_MANIFEST = "sources.json"


class CookbookWorld(Section):
    """``[world.settings]``: numbers of problems, SQL files, questions and answers."""

    sizes: dict[str, Positive] = Field({})
    files: Positive = 200
    queries_per_file: Positive = 8
    questions: Positive = 2000
    answers: Positive = 2


def make(given: Mapping[str, Any], directory: Path, *, seed: int, workers: int) -> MadeWorld:
    """Build the world and write ``sources``, once.

    ``sql/`` holds files of a schema and queries on it; ``annotators.jsonl`` the answers of
    annotators, right or wrong; ``executed.jsonl`` those whose SQL was run and gave the right rows.
    Questions are drawn without looking at the tests: later stages must find shared text.
    """
    settings = checked(CookbookWorld, given, beside=directory, place="[world.settings]")
    sizes = SQLWorldSizes(**settings.sizes)
    world = build_world(directory / "problems", seed=seed, sizes=sizes)
    out = directory / "sources"
    key = digest([VERSION, settings.model_dump(mode="json"), seed, fingerprint(world)])
    found = read_json(out / _MANIFEST) if (out / _MANIFEST).is_file() else {}
    if found.get("key") != key or _digests(out) != found.get("digests"):
        with atomic_path(out) as temporary:
            make_directory(temporary)
            _write_sql(world, settings, temporary / "sql")
            questions = _questions(world, settings)
            _write_rows(world, settings, questions, temporary, workers=workers)
            write_json(temporary / _MANIFEST, {"key": key, "digests": _digests(temporary)})
    rows = {name: out / f"{name}.jsonl" for name in ("annotators", "executed")}
    tables = sql_settings(world)
    sets = {name: tables["data"]["sets"][name] for name in SETS}
    return MadeWorld(
        files={"sql": out / "sql", "databases": world.databases_directory, **rows},
        tests={name: world.problems_path(name) for name in SETS},
        recipe={**tables, "data": {**tables["data"], "sets": sets}},
        digests={"world": fingerprint(world), **_digests(out)},
    )


def _write_sql(world: SQLWorld, settings: CookbookWorld, directory: Path) -> None:
    """Files of a schema and queries, each below a comment with its question."""
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
