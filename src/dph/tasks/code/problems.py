"""Programming problems of public data sets: rows in, problems for the verifier ``code`` out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.tasks.code.humaneval import humaneval_problem
from dph.tasks.code.livecodebench import livecodebench_problem
from dph.tasks.code.mbpp import mbpp_problem
from dph.tasks.code.row import CodeProblem
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier

CODE_SETS: Mapping[str, Callable[[Mapping[str, Any], str], CodeProblem]] = MappingProxyType(
    {
        "humaneval": humaneval_problem,
        "mbpp": mbpp_problem,
        "livecodebench": livecodebench_problem,
    }
)
"""Each data set's name, and what makes a problem of one of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProblems:
    """The problems of a file, and those that were left out: their ids and why."""

    problems: list[Problem]
    dropped: list[tuple[str, str]]


def load_code(path: Path, name: str) -> list[CodeProblem]:
    """The problems of a file of the shape ``name``, a key of CODE_SETS, in order.

    Raises:
        SettingsError: there is no such shape.
        DataError: the file is missing, a row is malformed, or an id is used twice.
    """
    if name not in CODE_SETS:
        raise SettingsError(f"the data sets are {', '.join(CODE_SETS)}, got {name!r}")
    places: dict[str, str] = {}
    found: list[CodeProblem] = []
    for place, row in read_rows(path):
        if not isinstance(row, dict):
            raise DataError(f"{place}: a problem is a JSON object, got {row!r:.80}")
        made = CODE_SETS[name](row, place)
        problem_id = made.problem.problem_id
        if problem_id in places:
            raise DataError(f"{place}: the id {problem_id!r} was used at {places[problem_id]}")
        places[problem_id] = place
        parse_task(made.problem.answer, place)
        found.append(made)
    if not found:
        raise DataError(f"{path} holds no problems")
    return found


def solvable(
    made: Iterable[CodeProblem], verifier: CodeVerifier, on_done: Callable[[int], None]
) -> CodeProblems:
    """The problems whose own solution passes their tests, and those without a solution.

    Raises:
        VerifierError: a worker failed.
    """
    problems: list[Problem] = []
    dropped: list[tuple[str, str]] = []
    for chunk in _chunks(list(made)):
        checked = [each for each in chunk if each.solution is not None]
        verdicts = dict(zip(map(id, checked), _verdicts(checked, verifier), strict=True))
        for each in chunk:
            verdict = verdicts.get(id(each))
            if verdict is None or verdict.outcome is Outcome.CORRECT:
                problems.append(each.problem)
            else:
                why = f"its own solution is {verdict.outcome}: {verdict.reason}"
                dropped.append((each.problem.problem_id, why))
        on_done(len(chunk))
    return CodeProblems(problems=problems, dropped=dropped)


def _verdicts(checked: Sequence[CodeProblem], verifier: CodeVerifier) -> list[Any]:
    pairs = [
        CodePair(parse_task(each.problem.answer, each.problem.problem_id), each.solution or "")
        for each in checked
    ]
    return [judged.verdict for judged in verifier.judge(pairs)]


def _chunks(made: Sequence[CodeProblem], size: int = 32) -> Iterable[Sequence[CodeProblem]]:
    return (made[start : start + size] for start in range(0, len(made), size))
