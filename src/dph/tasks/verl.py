"""Files of problems as verl's parquet files and back, a thousand rows in memory at a time."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory, require_other_file
from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks.problems import distinct, parse_problem, problem_line, stream_problems
from dph.tasks.verifiers.function import VERL_ROW

# verl reads the columns ``data_source``, ``prompt`` (chat messages), ``reward_model`` (``style``
# and ``ground_truth``) and ``extra_info``. The rest of a problem is in ``extra_info`` as JSON
# text (``answer_json``): parquet would otherwise give every row the fields of all others. The
# rest of a row that comes from verl's side is in the problem's answer, as ``verl_row``.

GROUND_TRUTH_FIELDS = ("answer", "gold_sql")
"""Fields that may hold the gold answer: those that the verifiers of math and SQL read."""

_TEXT_PROMPT = "text_prompt"


def verl_row(
    problem: Problem, *, index: int, data_source: str | None = None, ground_truth: str | None = None
) -> dict[str, Any]:
    """The row of a problem; ``problem_of_row`` gives the problem back.

    A text prompt becomes one message of the user. A ground truth that is not a text becomes JSON
    text, except in rows that verl's side brought.

    Args:
        problem: with any answer that is JSON.
        index: for ``extra_info``.
        data_source: verl chooses a reward function by it [default: the row's own, or "dph"].
        ground_truth: the answer's field with the gold answer [default: "answer", or "gold_sql"].
    """
    known = (field for field in GROUND_TRUTH_FIELDS if field in problem.answer)
    field = ground_truth or next(known, GROUND_TRUTH_FIELDS[0])
    if field not in problem.answer:
        raise DataError(
            f"problem {problem.problem_id!r} has no field {field!r} for verl's ground truth; "
            f"its fields are {', '.join(problem.answer) or 'none'} (dph convert: "
            "--ground-truth FIELD names one)"
        )
    gold, kept = problem.answer[field], _kept(problem)
    asked: Any = problem.prompt
    is_text = isinstance(asked, str)
    reward_model = {"style": "rule", **(kept.get("reward_model") or {})}
    extra_info = {"index": index, **(kept.get("extra_info") or {})}
    return kept | {
        "data_source": data_source or kept.get("data_source") or "dph",
        "prompt": [{"role": "user", "content": asked}] if is_text else list(map(dict, asked)),
        "reward_model": reward_model
        | {"ground_truth": gold if kept or isinstance(gold, str) else _json(gold, problem)},
        "extra_info": extra_info
        | {
            "problem_id": problem.problem_id,
            "ground_truth_field": field,
            _TEXT_PROMPT: is_text,
            "answer_json": _json(dict(problem.answer), problem),
        },
    }


def problem_of_row(
    row: Any, *, place: str, position: int, ground_truth: str = "answer", number: bool = False
) -> Problem:
    """The problem of a row, be it ``verl_row``'s or of one of verl's own data sets.

    A row of ``verl_row`` gives its problem. Any other gives a problem whose id is its
    ``extra_info.problem_id`` or ``<data_source>/<split>/<index>``, from what ``extra_info``
    has, and whose answer has the ground truth and, under ``verl_row``, all the rest of the row.

    ``position``, from 0, is the id's last part if there is no index; with ``number`` in any case.
    ``ground_truth`` is the name that the ground truth gets in the answer.
    """
    if not isinstance(row, dict):
        raise DataError(f"{place}: a row is a JSON object, got {row!r:.80}")
    extra = _mapping(row, "extra_info", place)
    if isinstance(extra.get("answer_json"), str):
        return _own(row, extra, place)
    reward_model = _mapping(row, "reward_model", place)
    if (gold := reward_model.get("ground_truth")) is None:
        raise DataError(f"{place}: there is no reward_model.ground_truth")
    rest: dict[str, Any] = {name: value for name, value in row.items() if name != "prompt"}
    rest["reward_model"] = {n: v for n, v in reward_model.items() if n != "ground_truth"}
    fields = {"prompt": row.get("prompt"), ground_truth: gold, VERL_ROW: rest}
    name = _problem_id(row, extra, place, position, number=number)
    return parse_problem({"problem_id": name, **fields}, place)


def _own(row: dict[str, Any], extra: dict[str, Any], place: str) -> Problem:
    """The problem of a row that ``verl_row`` wrote, whole or with fewer columns."""
    try:
        answer = json.loads(extra["answer_json"])
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: extra_info.answer_json is not JSON: {error}") from error
    field = extra.get("ground_truth_field")
    if not isinstance(answer, dict) or not isinstance(field, str) or field not in answer:
        raise DataError(f"{place}: extra_info.answer_json has no ground truth {field!r}")
    prompt = row.get("prompt")
    match prompt:
        case [{"role": "user", "content": text}] if extra.get(_TEXT_PROMPT):
            prompt = text  # that verl_row made one message of
    own = {"problem_id": extra.get("problem_id"), "prompt": prompt}
    problem = parse_problem(answer | own, place)
    expected = verl_row(problem, index=0, ground_truth=field)
    free = ("data_source", "prompt", "extra_info.index", f"extra_info.{_TEXT_PROMPT}")
    changed = [path for path in _differences(row, expected) if path not in free]
    if changed:
        raise DataError(
            f"{place}: {', '.join(changed)} differs from extra_info.answer_json; change the "
            "problems instead, or remove answer_json to use the row unchanged"
        )
    return problem


def _differences(found: Any, expected: Any, path: str = "") -> Iterator[str]:
    """The names whose values differ, of those that are there: null and empty are not to parquet."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name, value in found.items():
            yield from _differences(value, expected.get(name), f"{path}.{name}" if path else name)
    elif _bare(found) not in (None, _bare(expected)):
        yield path


def _bare(value: Any) -> Any:
    match value:
        case dict():
            full = {name: _bare(below) for name, below in value.items()}
            return {name: below for name, below in full.items() if below is not None} or None
        case list():
            return [_bare(item) for item in value]
        case float() if value != value:  # NaN, which is not even itself
            return "NaN"
        case _:
            return value


def _kept(problem: Problem) -> dict[str, Any]:
    """Other fields of the problem's own row, if it came from one."""
    kept = problem.answer.get(VERL_ROW)
    if not isinstance(kept, Mapping) or not isinstance(kept.get("data_source"), str):
        return {}
    parts = [kept.get(name) for name in ("reward_model", "extra_info")]
    if not all(part is None or isinstance(part, Mapping) for part in parts):
        return {}
    return dict(kept)


def ground_truth_of(problem: Problem, *, acts: bool) -> str | None:
    """A field for verl's column where an environment gives rewards and no problem has a gold."""
    known = problem.answer.keys()
    if not acts or known & set(GROUND_TRUTH_FIELDS):
        return None
    return next(iter(known), None)


def _problem_id(
    row: Mapping[str, Any], extra: Mapping[str, Any], place: str, position: int, *, number: bool
) -> str:
    source = row.get("data_source")
    if not isinstance(source, str) or not source:
        raise DataError(f"{place}: data_source must be text, got {source!r:.80}")
    own = extra.get("problem_id")
    if isinstance(own, str | int) and own != "" and not number:
        return str(own)
    index = None if number else extra.get("index")
    parts = [source, extra.get("split"), position if index is None else index]
    return "/".join(str(part) for part in parts if part is not None)


def _mapping(row: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    value = row.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{place}: {name} must be a table of fields, got {value!r:.80}")
    return value


def _json(value: Any, problem: Problem) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"problem {problem.problem_id!r} is not JSON: {error}") from error


_ROWS = 1024
_Item = TypeVar("_Item")


def problems_to_verl(
    source: Path,
    target: Path,
    *,
    data_source: str | None = None,
    ground_truth: str | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the problems of a file as verl's parquet, atomically, and return how many there are.

    The file is read twice: the columns of all rows must be known before the first is written.
    ``verl_row`` says what becomes of a problem and what ``data_source`` and ``ground_truth`` mean.
    """
    _require_places(source, target, ".parquet")

    def rows() -> Iterator[dict[str, Any]]:
        for index, problem in enumerate(stream_problems(source)):
            yield verl_row(problem, index=index, data_source=data_source, ground_truth=ground_truth)

    try:
        schemas = [pa.schema(list(pa.array(chunk).type)) for chunk in _chunks(rows())]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        done = 0
        with (
            atomic_path(target) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            for chunk in _chunks(rows()):
                writer.write_table(pa.Table.from_pylist(chunk, schema=schema))
                done += len(chunk)
                on_progress(len(chunk))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"the rows of {source} do not fit into one table: {error}") from error
    return done


def verl_to_problems(
    source: Path,
    target: Path,
    *,
    ground_truth: str = "answer",
    number: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the rows of verl's parquet as a ``.jsonl`` file of problems; return how many there are.

    ``problem_of_row`` says what becomes of a row and what ``ground_truth`` and ``number`` mean.
    """
    if ground_truth in ("problem_id", "prompt", VERL_ROW):
        raise SettingsError(f"the ground truth cannot become the field {ground_truth!r}")
    _require_places(source, target, ".jsonl")
    problems = problems_of_verl(source, ground_truth=ground_truth, number=number)
    done = 0
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        for chunk in _chunks(distinct(problems, source)):
            for problem in chunk:
                line = problem_line(problem)
                try:
                    file.write(line.encode() + b"\n")
                except UnicodeEncodeError:  # half of a surrogate pair, which only an escape holds
                    file.write(json.dumps(json.loads(line)).encode("ascii") + b"\n")
            done += len(chunk)
            on_progress(len(chunk))
    return done


def problems_of_verl(
    source: Path, *, ground_truth: str = "answer", number: bool = False
) -> Iterator[tuple[str, Problem]]:
    made = partial(problem_of_row, ground_truth=ground_truth, number=number)
    for position, (place, row) in enumerate(read_rows(source)):
        yield place, made(row, place=place, position=position)


def _require_places(source: Path, target: Path, suffix: str) -> None:
    if target.suffix != suffix:
        raise DataError(f"this conversion writes {suffix}, got {target}")
    require_other_file(target, source)
    make_directory(target.parent)


def _chunks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    rest = iter(items)
    while chunk := list(islice(rest, _ROWS)):
        yield chunk
