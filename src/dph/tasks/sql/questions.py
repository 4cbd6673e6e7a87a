"""Questions with gold SQL: what Spider and BIRD have in common."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json
from dph._base.files.rows import read_rows
from dph.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLQuestion:
    """A question on a database; ``evidence`` is the knowledge that BIRD gives along with it."""

    question_id: str
    db_id: str
    question: str
    gold_sql: str
    evidence: str = ""
    difficulty: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLSplit:
    """Where a split's questions, schemas and databases lie; None where there are none."""

    questions: list[SQLQuestion]
    databases: Path | None
    tables: Path | None


def published_rows(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a ``.json`` (a list of objects) or ``.parquet`` file.

    Raises:
        DataError: the file is missing or malformed.
    """
    rows = read_json(path) if path.suffix == ".json" else [row for _, row in read_rows(path)]
    if not rows or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} does not hold a list of questions")
    return rows


def to_questions(
    path: Path, *, prefix: str, gold_field: str, number_field: str, start: int = 0
) -> list[SQLQuestion]:
    """The questions of a file, with ids ``<prefix>-<number>``.

    Args:
        path: a ``.json`` or ``.parquet`` file.
        prefix: of the ids.
        gold_field: holds the gold SQL of a JSON file; a parquet file has ``gold_sql``.
        number_field: holds a question's number; without one it is its position in the file.
        start: number of the first position.

    Raises:
        DataError: the file is missing, a row lacks a field, or two have the same number.
    """
    gold = gold_field if path.suffix == ".json" else "gold_sql"
    found: dict[str, SQLQuestion] = {}
    for place, row in enumerate(published_rows(path), start):
        where, number = f"{path}, question {place}", row.get(number_field, place)
        question = _question(row, where, f"{prefix}-{number}", gold)
        if question.question_id in found:
            raise DataError(f"{where}: {number_field} {number!r} was used before")
        found[question.question_id] = question
    return list(found.values())


def first_that_exists(
    directory: Path, names: tuple[str, ...], *, test: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """The first of ``names`` in ``directory`` that is there."""
    found: Iterator[Path] = (directory / name for name in names if test(directory / name))
    return next(found, None)


def require_layout(directory: Path, names: tuple[str, ...], what: str) -> Path:
    """The first of ``names`` in ``directory`` that is there.

    Raises:
        DataError: none is; the message lists them.
    """
    if not directory.is_dir():
        raise DataError(f"there is no directory {directory}")
    found = first_that_exists(directory, names)
    if found is None:
        raise DataError(f"{directory} holds no {what}: looked for {', '.join(names)}")
    return found


def _question(row: Mapping[str, Any], place: str, question_id: str, gold: str) -> SQLQuestion:
    for field in ("db_id", "question", gold):
        if not isinstance(row.get(field), str) or not row[field].strip():
            raise DataError(f"{place}: {field!r} has to be a text, got {row.get(field)!r:.80}")
    if Path(row["db_id"]).name != row["db_id"]:
        raise DataError(f"{place}: 'db_id' has to be the name of a database, got {row['db_id']!r}")
    evidence = row.get("evidence") or ""
    if not isinstance(evidence, str):
        raise DataError(f"{place}: 'evidence' has to be a text, got {evidence!r:.80}")
    return SQLQuestion(
        question_id=question_id,
        db_id=row["db_id"],
        question=row["question"],
        gold_sql=row[gold],
        evidence=evidence,
        difficulty=row.get("difficulty"),
    )
