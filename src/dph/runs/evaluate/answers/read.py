"""Files and directories of answers: which tool wrote them, and their answers by problem."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from dph._base.files.rows import SUFFIXES, RowFormat, json_rows, read_rows, row_format
from dph.errors import DataError
from dph.records import Outcome, Problem
from dph.runs.directory import EVALUATION, METRICS, RECIPE, SAMPLES
from dph.runs.evaluate.answers.tools import (
    USUAL,
    GradedAnswer,
    PlacedRow,
    Row,
    id_of_prompt,
    inspect_log,
    is_evalplus,
    named_columns,
    prompt_of,
    read_evalplus,
    read_inspect,
    read_lighteval,
    read_lm_eval,
    read_trl,
    read_verl,
    text_of,
    verdict_of,
)

logger = logging.getLogger(__name__)

Key = tuple[str, str]
"""Set and problem id."""

NO_SET = "answers"
"""The set of rows without a set."""
Names = Mapping[str, str | None]


def read_answer_rows(rows: Iterator[PlacedRow], first: Row) -> tuple[str, Iterator[GradedAnswer]]:
    """The column of the verdict, and the answers."""
    names = _names(first)
    texts = "" if names["response"] else ", without texts (--column response=NAME names them)"
    return f"{names['correct']}{texts}", (answer for placed in rows for answer in _answers(*placed))


def _names(row: Row) -> Names:
    """The names of our columns in a row; a column that the user named is no other one."""
    named = named_columns()
    taken = set(named.values())
    usual = {name: [one for one in of if one not in taken] for name, of in USUAL.items()}
    usual |= {name: [column] for name, column in named.items()}
    return {name: next((one for one in of if one in row), None) for name, of in usual.items()}


def _answers(place: str, row: Any) -> Iterator[GradedAnswer]:
    """The answer of a row; several if the row has lists of answers and of verdicts."""
    row = row if isinstance(row, dict) else {}
    of = _names(row)
    _require_columns(row, place, of)
    cells = {name: None if column is None else row[column] for name, column in of.items()}
    said, given = cells["response"], cells["correct"]
    pairs = [(said, given)]
    if isinstance(given, list):
        if not isinstance(said, list) or len(said) != len(given):
            raise DataError(
                f"{place}: {of['correct']} is a list of another length than the answers"
            )
        pairs = list(zip(said, given, strict=True))
    prompt = prompt_of(cells["prompt"], place)
    gold = None if cells["gold"] is None else str(cells["gold"])
    problem_id = cells["problem_id"]
    if of["problem_id"] and (isinstance(problem_id, bool) or not isinstance(problem_id, str | int)):
        raise DataError(f"{place}: problem_id must be text or a whole number, got {problem_id!r}")
    for text, verdict in pairs:
        outcome, reward = _verdict(row, verdict, str(of["correct"]), place)
        yield GradedAnswer(
            set_name=NO_SET if cells["set"] is None else str(cells["set"]),
            problem_id=id_of_prompt(prompt, gold) if problem_id is None else str(problem_id),
            place=place,
            outcome=outcome,
            reward=reward,
            text=text_of(text, place),
            reason=str(row.get("reason") or ""),
            style=_style(row.get("style"), place),
            index=_index(row, place) if len(pairs) == 1 else None,
            prompt=prompt,
            gold=gold,
        )


def _verdict(row: Row, value: Any, name: str, place: str) -> tuple[Outcome, float]:
    """The outcome, with the reward next to it if there is one."""
    if name != "outcome":
        return verdict_of(value, place, name)
    if value is None:
        return verdict_of(row.get("reward"), place, "reward")
    outcome, reward = verdict_of(value, place, name)
    return outcome, verdict_of(row["reward"], place, "reward")[1] if "reward" in row else reward


def _style(value: Any, place: str) -> str | None:
    if isinstance(value, int | float | str):
        return str(value) if value == value and value != "" else None  # NaN is nothing to pandas
    if value is None:
        return None
    raise DataError(f"{place}: style must be text, a number or nothing, got {value!r:.80}")


def _index(row: Row, place: str) -> int | None:
    value = row.get("sample_index")
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if value is not None and not whole:
        raise DataError(f"{place}: sample_index must be a whole number, got {value!r}")
    return None if value is None else int(value)


def with_numbers(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a CSV file, where all is text: numbers are read, an empty cell is None."""
    filled: dict[str, Any] = {name: cell or None for name, cell in row.items()}
    for name in ("reward", "sample_index"):
        with suppress(KeyError, ValueError, TypeError):  # refused as text, or as nothing
            filled[name] = float(filled[name])
    return filled


def _require_columns(row: Row, place: str, names: Names) -> None:
    if gone := [column for name, column in named_columns().items() if names[name] is None]:
        raise DataError(f"{place}: there is no column {gone[0]!r}, only {', '.join(row)}")
    lacking = [] if names["problem_id"] or names["prompt"] else ["problem_id"]
    lacking += [] if names["correct"] else ["reward"]
    if lacking:
        raise DataError(
            f"{place}: there is no {' and no '.join(map(repr, lacking))}, only "
            f"{', '.join(row) or 'nothing'}; expected are problem_id (or prompt) and correct, "
            "outcome or reward in every row (--column names others), or a file of verl, TRL, "
            "lm-eval, Inspect, lighteval or evalplus"
        )


_OWN = "graded answers"
_ROWS = (
    ("lm-eval", {"doc_id", "resps"}, read_lm_eval),
    ("lighteval", {"doc", "model_response", "metric"}, read_lighteval),
    ("TRL", {"step", "completion", "advantage"}, read_trl),
    ("verl", {"input", "output", "score", "step"}, read_verl),
    (_OWN, set[str](), read_answer_rows),
)
"""Tools that write rows, the columns by which each is recognized, and its reader."""

_VERL_DUMP = re.compile(r"\d+\.jsonl")
_PATTERNS = (
    ("samples_*.jsonl", "*/samples_*.jsonl"),
    ("details_*.parquet", "*/details_*.parquet", "details/**/details_*.parquet"),
    ("completions_*.parquet", "completions/completions_*.parquet"),
    ("*.eval",),
    ("*eval_results.json",),
    tuple(f"*{suffix}" for suffix in SUFFIXES),
    ("*.json",),
)
"""Files of a directory; the first of these that a file matches decides what the directory is."""


def answer_files(place: Path) -> list[Path]:
    """The files of answers at ``place``, a file or a directory; none in a directory of runs.

    verl's dumps, one for each validation, are in the order of the steps.
    """
    if place.is_file():
        return [place]
    of_run = (METRICS, EVALUATION, SAMPLES, RECIPE)
    if not place.is_dir() or any(
        (one / name).is_file() for one in (place, *place.iterdir()) for name in of_run
    ):
        return []
    for patterns in _PATTERNS:
        found = sorted({path for pattern in patterns for path in place.glob(pattern)})
        if found and all(_VERL_DUMP.fullmatch(path.name) for path in found):
            return sorted(found, key=lambda path: int(path.stem))
        if found:
            return found
    return []


def first_dump(place: Path) -> Path | None:
    """The dump of the first of several validations of verl, before training."""
    files = answer_files(place) if place.is_dir() else []
    return files[0] if len(files) > 1 and _VERL_DUMP.fullmatch(files[0].name) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """Answers by set and problem, in the order of the files, and the problems that are known."""

    by_problem: Mapping[Key, Sequence[GradedAnswer]]
    problems: Mapping[Key, Problem]


def read_answers(place: Path) -> Answers:
    """The graded answers of one model, from a file or a directory of any known tool.

    If a problem was answered at several steps of training, the last step counts. The log says once
    what was found.
    """
    stats = [(path, path.stat()) for path in answer_files(place)]
    if not stats:
        run = " of answers in the directory" if place.is_dir() else ""
        hint = "; dph compare reads runs" if run else ""
        raise DataError(f"there is no file{run} {place}{hint}")
    seen = tuple((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats)
    return _read(place, (seen, *named_columns().items()))


@lru_cache(maxsize=8)
def _read(place: Path, _state: object) -> Answers:
    files, dumps = answer_files(place), first_dump(place) is not None
    # lighteval has a directory for each run of a model: its seeds add up.
    models = {path.parents[1 if path.name.startswith("details_") else 0] for path in files}
    if len(models) > 1 or len({path.name for path in files}) < len(files):
        names = " and ".join(sorted({str(path.parent) for path in files})[:2])
        raise DataError(f"{place} holds answers in {names}: name the directory of one model")
    tools: dict[str, dict[str, None]] = {}
    by_problem: dict[Key, list[GradedAnswer]] = {}
    problems: dict[Key, Problem] = {}
    shared = False
    for path in files[-1:] if dumps else files:
        tool, right, answers = _of_file(path)
        tools.setdefault(tool, {})[right] = None
        of_file: dict[Key, GradedAnswer] = {}
        for answer in answers:
            key = (answer.set_name, answer.problem_id)
            if not shared and key in by_problem and key not in of_file:
                _require_parts(place, files, tool)
                shared = True
            _require_same(of_file.setdefault(key, answer), answer)
            by_problem.setdefault(key, []).append(answer)
        told = {key: _problem(one) for key, one in of_file.items() if one.prompt or one.gold}
        problems = {**told, **problems}
    if len(tools) > 1:
        raise DataError(f"{place} holds files of {' and '.join(tools)}: name one of them")
    if not by_problem:
        raise DataError(f"{place} has no graded samples")
    kept = {key: _ordered(of) for key, of in by_problem.items()}
    ((tool, rights),) = tools.items()
    right = ", ".join(rights)
    last = f"; the last of {len(files)} validations, {files[-1].name}" if dumps else ""
    counts, sets = sorted({len(of) for of in kept.values()}), {name for name, _ in kept}
    said = f"{len(kept)} problem{'' if len(kept) == 1 else 's'}"
    said += f" of {len(sets)} sets" if len(sets) > 1 else ""
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    said += f", {each} answer{'' if counts == [1] else 's'} each"
    said += f", added up over {len(files)} files" if shared else ""
    logger.warning("%s: rows of %s, %s, right by %s%s", place, tool, said, right, last)
    return Answers(by_problem=kept, problems=problems)


def _require_parts(place: Path, files: Sequence[Path], tool: str) -> None:
    """Refuse files with answers to the same problems that may be those of several models."""
    if tool == _OWN and len({re.sub(r"\d+", "", path.name) for path in files}) > 1:
        raise DataError(
            f"{place} has answers to the same problems in {files[0].name} and {files[1].name}: "
            "name the file of one model (files of one model differ only in a number)"
        )


def _of_file(path: Path) -> tuple[str, str, Iterator[GradedAnswer]]:
    """The tool, the column or metric of the verdict, and the answers."""
    found = _content(path)
    if isinstance(found, dict):
        if is_evalplus(found):
            return ("evalplus", *read_evalplus(found, path))
        if isinstance(found.get("samples"), list):
            model = found.get("eval", {}).get("model", "no model")
            return (f"Inspect ({model})", *read_inspect(found, path))
        raise DataError(
            f"{path} is neither a log of Inspect nor evalplus's results; it has "
            f"{', '.join(list(found)[:8]) or 'nothing in it'}"
        )
    first = next(found, None)
    if first is None:
        raise DataError(f"{path} has no graded samples: it is empty")
    fields = first[1] if isinstance(first[1], dict) else {}
    tool, read = next((name, read) for name, known, read in _ROWS if known <= fields.keys())
    try:
        return (tool, *read(chain([first], found), fields))
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"{path}: {error}") from error


def _content(path: Path) -> dict[str, Any] | Iterator[PlacedRow]:
    """The document of a JSON file or of a log, otherwise rows with their places."""
    if path.name.endswith(".eval"):
        return inspect_log(path)
    if not path.name.endswith(".json"):
        try:
            csv = row_format(path) is RowFormat.CSV
        except DataError as error:
            raise DataError(f"{error}, .json, .eval") from error
        return ((place, with_numbers(row) if csv else row) for place, row in read_rows(path))
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # lines of JSON; what is neither is named by its line
        return json_rows(path)
    if isinstance(document, list):
        return ((f"{path}, item {number}", row) for number, row in enumerate(document, 1))
    return document if isinstance(document, dict) else {}


def _require_same(first: GradedAnswer, answer: GradedAnswer) -> None:
    if (first.prompt, first.gold) != (answer.prompt, answer.gold):
        which = "prompt" if first.prompt != answer.prompt else "gold"
        raise DataError(
            f"{answer.place}: problem {answer.problem_id!r} has another {which} than at "
            f"{first.place}; an id belongs to one problem, and --column response=NAME names the "
            "answers"
        )


def _problem(answer: GradedAnswer) -> Problem:
    gold = {} if answer.gold is None else {"answer": answer.gold}
    return Problem(problem_id=answer.problem_id, prompt=answer.prompt or "", answer=gold)


def _ordered(answers: Sequence[GradedAnswer]) -> list[GradedAnswer]:
    """Answers of the last step, by index if they have one, else in file order."""
    last = max(answer.step for answer in answers)
    kept = [answer for answer in answers if answer.step == last]
    found: dict[int | None, GradedAnswer] = {}
    for answer in kept:
        if (answer.index is None) != (kept[0].index is None):
            raise DataError(f"{answer.place}: some rows have a sample_index and some have none")
        if answer.index is not None and found.setdefault(answer.index, answer) is not answer:
            name = f"sample {answer.index} of problem {answer.problem_id!r}"
            raise DataError(f"{answer.place}: {name} occurs twice")
    return sorted(kept, key=lambda answer: answer.index or 0)


def by_sets(answers: Answers) -> dict[str, dict[str, Sequence[GradedAnswer]]]:
    """The answers of each set by problem, the same number of each, in the order of the ids.

    Of the numbers that at least half of the problems have it is the one that keeps the most
    answers; problems with fewer are left out, with a warning. Greedy answers stay if all have one.
    """
    sets: dict[str, dict[str, Sequence[GradedAnswer]]] = {}
    for (name, problem_id), of in answers.by_problem.items():
        sets.setdefault(name, {})[problem_id] = of
    return {name: _even(name, of) for name, of in sets.items()}


def _even(
    name: str, problems: Mapping[str, Sequence[GradedAnswer]]
) -> dict[str, Sequence[GradedAnswer]]:
    drawn = {problem: [a for a in of if a.index != -1] for problem, of in problems.items()}
    counts = [len(of) for of in drawn.values()]
    reached = {count: sum(c >= count for c in counts) for count in set(counts)}
    usual = (count for count in reached if 2 * reached[count] >= len(counts))
    width = max(usual, key=lambda count: (count * reached[count], -count))
    if len(set(counts)) > 1:
        logger.warning(
            "set %r: the first %d answers of each problem count; %d of %d problems have fewer and "
            "are left out",
            *(name, width, sum(count < width for count in counts), len(counts)),
        )
    chosen = sorted((p for p in drawn if len(drawn[p]) >= width), key=_natural)
    greedy = min(len(problems[p]) - len(drawn[p]) for p in chosen)
    return {p: [*problems[p][:greedy], *drawn[p][:width]] for p in chosen}


def _natural(problem_id: str) -> list[tuple[int, str]]:
    """Numbers in an id are compared by value: those of fewer digits first."""
    parts = re.split(r"(\d+)", problem_id)
    return [(len(part.lstrip("0")) if part.isdecimal() else 0, part) for part in parts]
