"""Problems on disk: one per row, ``problem_id``, ``prompt`` and what the verifier needs."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import write_text
from dph._base.files.rows import read_rows
from dph.errors import DataError
from dph.records import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemsOfFile:
    """The problems made of a file, and what became none: its id or place, and why."""

    problems: list[Problem]
    dropped: list[tuple[str, str]]


def renamed(
    rows: Iterable[tuple[str, Any]], columns: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """Rows with the fields that ``columns`` names, each with its place in the file.

    ``{"prompt": "question"}`` takes the prompt from the column ``question``, which is not there
    any more under its own name, unless a field is called so; what else was called ``prompt`` is
    gone. Columns that are not named stay. A row without a ``problem_id`` gets its number in the
    file, from 1.
    """
    for number, (place, row) in enumerate(rows, start=1):
        if not isinstance(row, dict):
            yield place, row  # refused, with its value, where rows become problems
            continue
        for field, column in columns.items():
            if column not in row:
                there = ", ".join(map(str, row)) or "none"
                raise DataError(
                    f"{place}: there is no column {column!r}, which columns (of data, or of a set) "
                    f"names for {field}; there are: {there}"
                )
        taken = {field: row[column] for field, column in columns.items()}
        gone = {*columns, *columns.values()}
        others = {name: value for name, value in row.items() if name not in gone}
        yield place, {"problem_id": number, **others, **taken}


def prompt_text(problem: Problem) -> str:
    r"""The prompt unchanged; of a chat, each message under its role.

    >>> prompt_text(Problem(problem_id="p", prompt=({"role": "user", "content": "2 + 2?"},)))
    '[user]\n2 + 2?'
    """
    if isinstance(problem.prompt, str):
        return problem.prompt
    messages = (f"[{m.get('role', '')}]\n{m.get('content', '')}" for m in problem.prompt)
    return "\n\n".join(messages)


def problem_columns(problem: Problem) -> dict[str, str]:
    """``problem_id``, and ``prompt`` and ``answer`` as JSON text.

    >>> problem_columns(Problem(problem_id="q", prompt="1 + 1?", answer={"answer": "2"}))
    {'problem_id': 'q', 'prompt': '"1 + 1?"', 'answer': '{"answer": "2"}'}
    """
    prompt, answer = _json(problem.prompt), _json(dict(problem.answer))
    return {"problem_id": problem.problem_id, "prompt": prompt, "answer": answer}


def problem_of_columns(row: Mapping[str, Any]) -> Problem:
    """The problem of a row with the columns of ``problem_columns``."""
    prompt, answer = json.loads(row["prompt"]), json.loads(row["answer"])
    prompt = prompt if isinstance(prompt, str) else tuple(prompt)
    return Problem(problem_id=row["problem_id"], prompt=prompt, answer=answer)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


_OWN_FIELDS = ("problem_id", "prompt")


def load_problems(path: str | Path, *, columns: Mapping[str, str] | None = None) -> list[Problem]:
    """Read problems from a ``.jsonl``, ``.parquet`` or ``.csv`` file; text files may be gzipped.

    Every field but ``problem_id`` and ``prompt`` goes into ``answer``, as it is. A prompt is a
    text or a list of chat messages. Dates and decimals of a parquet file become text; a CSV file
    has a line of column names first and holds nothing but text. ``columns`` says what fields are
    called in the file, as ``renamed`` does.

    Raises:
        DataError: the file is missing, empty or of another kind, or a row is malformed; the
            message names the file and the line (jsonl, CSV) or row (parquet), counted from 1.
    """
    return list(stream_problems(Path(path), columns=columns))


def stream_problems(path: Path, *, columns: Mapping[str, str] | None = None) -> Iterator[Problem]:
    """Yield the problems of ``load_problems`` one by one, with only the ids in memory."""
    rows = _rows(path, columns)
    return distinct(((place, parse_problem(row, place)) for place, row in rows), path)


def _rows(path: Path, columns: Mapping[str, str] | None) -> Iterator[tuple[str, Any]]:
    rows = read_rows(path)
    return renamed(rows, columns) if columns else rows


def distinct(problems: Iterable[tuple[str, Problem]], path: Path) -> Iterator[Problem]:
    """The problems of a file, given with their places, which are there and have different ids."""
    places: dict[str, str] = {}
    for place, problem in problems:
        _note_place(places, problem, place)
        yield problem
    if not places:
        raise DataError(f"{path} holds no problems")


def malformed_rows(path: Path, *, columns: Mapping[str, str] | None = None) -> Iterator[str]:
    """Faults of the rows that ``load_problems`` refuses, one message each.

    A line that is not JSON is the last one told of: the rows after it cannot be read.
    """
    places: dict[str, str] = {}
    rows = _rows(path, columns)
    while True:
        try:
            place, row = next(rows)
        except StopIteration:
            return
        except DataError as error:
            yield str(error)
            return
        try:
            _note_place(places, parse_problem(row, place), place)
        except DataError as error:
            yield str(error)


def _note_place(places: dict[str, str], problem: Problem, place: str) -> None:
    before = places.setdefault(problem.problem_id, place)
    if before != place:
        raise DataError(f"{place}: problem_id {problem.problem_id!r} was used before, at {before}")


def save_problems(
    path: Path, problems: Sequence[Problem], *, columns: Mapping[str, str] | None = None
) -> None:
    """Write problems to a ``.jsonl`` file, atomically; ``load_problems`` gives them back.

    Raises:
        DataError: the suffix is another one, or an answer is not JSON or has a field named
            ``problem_id`` or ``prompt``.
    """
    if path.suffix != ".jsonl":
        raise DataError(f"problems are written to .jsonl, got {path}")
    lines = (problem_line(problem, columns=columns) + "\n" for problem in problems)
    write_text(path, "".join(lines))


def problems_fingerprint(problems: Sequence[Problem]) -> str:
    """SHA-256 of the problems, in order, as canonical JSON (sorted keys, no blanks, ASCII).

    Raises:
        DataError: an answer is not JSON.
    """
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(problem_line(problem, canonical=True).encode("ascii") + b"\n")
    return digest.hexdigest()


def problem_row(problem: Problem) -> dict[str, Any]:
    """A problem as a row of a file: its id, its prompt and the fields of its answer."""
    if clash := [field for field in _OWN_FIELDS if field in problem.answer]:
        raise DataError(
            f"problem {problem.problem_id!r}: its answer must not have the field {clash}"
        )
    prompt: Any = problem.prompt
    if not isinstance(prompt, str):
        prompt = [dict(message) for message in prompt]
    return {"problem_id": problem.problem_id, "prompt": prompt, **problem.answer}


def problem_line(
    problem: Problem, *, columns: Mapping[str, str] | None = None, canonical: bool = False
) -> str:
    """A problem as one line of JSON; ``canonical`` sorts the keys and leaves out blanks."""
    row = {(columns or {}).get(name, name): value for name, value in problem_row(problem).items()}
    try:
        if canonical:
            return json.dumps(row, sort_keys=True, separators=(",", ":"))
        return json.dumps(row, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"problem {problem.problem_id!r} is not JSON: {error}") from error


def parse_problem(row: Any, place: str) -> Problem:
    """The problem of a row; ``place`` says in messages where it stands."""
    if not isinstance(row, dict):
        raise DataError(f"{place}: a problem is a JSON object, got {row!r:.80}")
    problem_id = row.get("problem_id")
    if isinstance(problem_id, int) and not isinstance(problem_id, bool):
        problem_id = str(problem_id)
    if not isinstance(problem_id, str) or not problem_id:
        raise DataError(f"{place}: problem_id must be text or a whole number, got {problem_id!r}")
    prompt = row.get("prompt")
    if isinstance(prompt, list) and prompt and all(map(_is_message, prompt)):
        prompt = tuple(prompt)
    elif not isinstance(prompt, str) or not prompt.strip():
        raise DataError(
            f"{place}: prompt must be text or a list of messages "
            f'{{"role": ..., "content": ...}}, not empty, got {prompt!r:.80}'
        )
    # pandas writes NaN, which is not even itself and no JSON, where nothing is known.
    answer = {k: None if v != v else v for k, v in row.items() if k not in _OWN_FIELDS}
    return Problem(problem_id=problem_id, prompt=prompt, answer=answer)


def _is_message(value: Any) -> bool:
    named = isinstance(value, dict) and set(value) == {"role", "content"}
    return named and all(isinstance(text, str) for text in value.values())
