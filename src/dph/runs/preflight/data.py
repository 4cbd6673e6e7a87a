"""The problems: files that can be read and hold enough, and graders that give verdicts on rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dph.errors import DataError, DphError
from dph.model.hub import problems_file
from dph.recipe import Recipe
from dph.recipe.hub_names import hub_file
from dph.records import Outcome, Problem, Verdict
from dph.runs.memory import Device, MemoryEstimate
from dph.runs.task import recipe_shots, require_no_shown_test, run_verifier, verifier_maker
from dph.tasks.environments import Environment, EnvironmentVerifier
from dph.tasks.problems import load_problems, malformed_rows
from dph.tasks.styles import make_style
from dph.tasks.verifiers import unknown_verifier
from dph.tasks.verifiers.base import Verifier
from dph.tasks.verifiers.code.task import FIELDS as CODE_FIELDS


@dataclass(slots=True, kw_only=True)
class Findings:
    """Lines for people, collected by the checks."""

    errors: list[str] = field(default_factory=list)
    """Mistakes that would end the run."""
    notes: list[str] = field(default_factory=list)
    """Named files that do not exist yet, and facts worth knowing."""
    unchecked: list[str] = field(default_factory=list)
    """Parts that could not be checked: something does not exist, or needs torch."""
    memory: MemoryEstimate | None = None
    """Estimated cost of training and sampling; None where it is unknown."""
    device: Device | None = None
    """Devices that they would run on."""


_ROWS_TOLD = 5
"""Malformed rows of one file that are told, each in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProblems:
    """The problems of a file, the setting that names it, and how they are used."""

    key: str
    problems: Sequence[Problem]
    verifier: str
    max_tokens: int


def read_data(recipe: Recipe, findings: Findings) -> list[NamedProblems]:
    """The problems of every file that can be read; what cannot goes to the findings."""
    known: dict[Any, Sequence[Problem]] = {}
    named = []
    for file in _files(recipe):
        path = _place(file, findings)
        if path is None:
            continue
        same, columns = (path, tuple(file.columns.items())), file.columns
        try:
            known[same] = problems = known.get(same) or load_problems(path, columns=columns)
        except DataError as error:
            wrong = _all_wrong(path, error, columns)
            findings.errors.extend(f"{file.key}: {message}" for message in wrong)
            continue
        named.append(
            NamedProblems(
                key=file.key,
                problems=problems,
                verifier=file.verifier,
                max_tokens=file.max_tokens,
            )
        )
    databases = recipe.data.databases
    if databases is not None and not databases.exists():
        findings.notes.append(f"data.databases does not exist: {databases}")
    elif databases is not None and not databases.is_dir():
        findings.errors.append(f"data.databases is not a directory: {databases}")
    return named


def _place(file: "_File", findings: Findings) -> Path | None:
    """Path of a file; None if it is missing, which is noted. Nothing is fetched."""
    try:
        path = problems_file(file.path)
    except DataError:
        findings.notes.append(
            f"{file.key} is not in the cache: a run would fetch {hub_file(file.path)} from the Hub"
        )
        return None
    if path.exists():
        return path
    findings.notes.append(f"{file.key} does not exist: {path}")
    return None


def _all_wrong(path: Path, first: DataError, columns: Mapping[str, str]) -> list[str]:
    """Faults of a file that cannot be loaded: its first malformed rows, or the file."""
    wrong = list(malformed_rows(path, columns=columns)) or [str(first)]
    if len(wrong) > _ROWS_TOLD:
        more = len(wrong) - _ROWS_TOLD
        wrong[_ROWS_TOLD:] = [f"{path}: {more} further rows cannot be used"]
    return wrong


def count_errors(recipe: Recipe, training: NamedProblems) -> list[str]:
    """Whether there are enough problems for one step."""
    wanted, there = recipe.train.problems_per_step, len(training.problems)
    if recipe.labelled_per_step <= there:
        return []
    return [f"train.problems_per_step = {wanted}, but data.train holds only {there} problems"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file of problems as the recipe names it."""

    key: str
    path: Path
    columns: Mapping[str, str]
    verifier: str
    max_tokens: int


def _files(recipe: Recipe) -> Iterator[_File]:
    data, longest = recipe.data, recipe.sampling.max_tokens
    yield _File(
        key="data.train",
        path=data.train,
        columns=data.columns,
        verifier=data.verifier,
        max_tokens=longest,
    )
    for name, chosen in data.sets.items():
        yield _File(
            key=f"data.sets.{name}",
            path=chosen.path,
            columns=data.columns_of(name),
            verifier=chosen.verifier or data.verifier,
            max_tokens=recipe.evaluate.max_tokens or longest,
        )


def check_shots(
    recipe: Recipe, named: Sequence[NamedProblems], findings: Findings
) -> list[NamedProblems]:
    """The problems as the model is asked them; what is wrong with the examples is found."""
    train = next((part.problems for part in named if part.key == "data.train"), None)
    if recipe.data.shots is None or train is None:
        return list(named)
    sets = [(part.key, part.problems) for part in named if part.key.startswith("data.sets.")]
    try:
        shots, left = recipe_shots(recipe, train)
        require_no_shown_test(shots, sets)
    except DphError as error:
        findings.errors.append(str(error))
        return list(named)
    assert shots is not None
    chat = recipe.data.chat is True
    kept = {part.key: part.problems for part in named} | {"data.train": left}
    return [
        replace(part, problems=[shots.before(each, chat=chat) for each in kept[part.key]])
        for part in named
    ]


_HEADER = b"SQLite format 3\x00"


def check_databases(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Look at every database of the problems that the sql verifier grades."""
    start = recipe.data.databases or Path()
    if not start.is_dir():
        return  # told with the setting itself
    for part in named:
        if part.verifier != "sql":
            continue
        names = (problem.answer.get("database") for problem in part.problems)
        files = dict.fromkeys(start / name for name in names if isinstance(name, str) and name)
        bad = [file for file in files if not _is_database(file)]
        if bad:
            findings.errors.append(
                f"{part.key}: {len(bad)} of {len(files)} databases are missing or not SQLite "
                f"files, the first is {bad[0]}"
            )


def _is_database(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


_GOLDS = ("answer", "gold_sql", "gold")
"""Fields of a problem that say what is right."""
_ROWS = 8
"""Rows to try before saying that no gold answer can be graded."""


def check_styles(recipe: Recipe, findings: Findings) -> None:
    """Import the style classifiers."""
    data = recipe.data
    named = {f"data.sets.{name}.styles": chosen.styles for name, chosen in data.sets.items()}
    for key, name in {"data.styles": data.styles, **named}.items():
        try:
            make_style(name, data.modules)
        except DphError as error:
            findings.errors.append(f"{key}: {error}")


def check_verifiers(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Make each verifier once and let it grade a row of the first file that it is for."""
    data = recipe.data
    if recipe.environment.path is not None:
        check_environment(recipe, named, findings)
        return
    sets = {f"data.sets.{name}.verifier": chosen.verifier for name, chosen in data.sets.items()}
    checked: set[str] = set()
    for key, name in {"data.verifier": data.verifier, **sets}.items():
        if name is None or name in checked:
            continue
        checked.add(name)
        if unknown := unknown_verifier(name):
            findings.errors.append(f"{key}: {unknown}")
            continue
        own = next((n for n in named if n.verifier == name), None)
        if own is None:
            findings.unchecked.append(f"{key} on a row: there is no row to read")
        if data.databases is not None and not data.databases.is_dir():
            own = None  # said already
        try:
            verifier = verifier_maker(recipe)(name)
        except DphError as error:
            findings.errors.append(f"{key}: {error}")
            continue
        if missing := getattr(verifier, "missing", ()):
            findings.notes.append(f"{key}: programs are not confined by {', '.join(missing)}")
        try:
            _grade(key, verifier, own.problems if own else (), findings)
        finally:
            verifier.close()


def check_environment(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Make the class once and let it begin a trajectory of the first problem of each file."""
    key = f"environment.path = {recipe.environment.path!r}"
    try:
        verifier = run_verifier(recipe)
    except DphError as error:
        findings.errors.append(f"{key}: {error}")
        return
    assert isinstance(verifier, EnvironmentVerifier)
    with verifier:
        for file in named:
            for problem in file.problems[:1]:
                if fault := _fault_of_beginning(verifier.environment, problem):
                    findings.errors.append(f"{key}: problem {problem.problem_id!r}: {fault}")


def _fault_of_beginning(environment: Environment, problem: Problem) -> str:
    try:
        with environment.begin(problem) as episode:
            return _line(episode.ending) if episode.ending is not None else ""
    except DphError as error:
        return str(error)


def _grade(key: str, verifier: Verifier, problems: Sequence[Problem], findings: Findings) -> None:
    bad: list[str] = []
    for problem in problems[:_ROWS]:
        try:
            [verdict] = verifier.grade([problem], [_some_response(problem)])
        except DphError as error:
            findings.errors.append(f"{key}: {error}")
            return
        what = f"problem {problem.problem_id!r}: {_line(verdict)}"
        if verdict.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT):
            findings.errors.append(f"{key}: {verifier.name!r} cannot grade {what}")
            return
        if verdict.outcome is not Outcome.BAD_GOLD:
            break
        bad.append(what)
    else:
        if bad:
            count = f"the first {len(bad)} problems" if len(bad) > 1 else "the only problem"
            findings.errors.append(f"{key}: {count} cannot be graded, for example {bad[0]}")
        return
    if bad:
        findings.notes.append(f"{len(bad)} of {len(bad) + 1} rows cannot be graded: {bad[0]}")


def _some_response(problem: Problem) -> str:
    if any(problem.answer.get(field) is not None for field in CODE_FIELDS):
        return "```python\npass\n```"
    found = (problem.answer.get(field) for field in _GOLDS)  # a response that can be graded
    return next((str(gold) for gold in found if gold is not None), "0")


def _line(verdict: Verdict) -> str:
    reason = " ".join(verdict.reason.split())
    return f"{verdict.outcome.value}: {reason}" if reason else verdict.outcome.value
