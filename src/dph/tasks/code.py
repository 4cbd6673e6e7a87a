"""Programming problems of public data sets: rows in, problems for the verifier ``code`` out."""

import ast
import base64
import binascii
import json
import pickletools
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.code_environment import VISIBLE
from dph.tasks.problems import ProblemsOfFile
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier

INSTRUCTION = "Answer with one block of code, ```python ... ```, that holds the whole program."
"""Instruction to a model, after the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProblem:
    """A problem, and the data set's own solution where it has one."""

    problem: Problem
    solution: str | None = None


def text_field(row: Mapping[str, Any], name: str, place: str, *, empty: bool = False) -> str:
    """A required text of a row."""
    value = row.get(name)
    if not isinstance(value, str) or not (empty or value.strip()):
        raise DataError(f"{place}: {name!r} must be text, got {value!r:.80}")
    return value


def texts_field(row: Mapping[str, Any], name: str, place: str) -> list[str]:
    """A list of texts; one that is missing is empty."""
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise DataError(f"{place}: {name!r} must be a list of texts, got {value!r:.80}")
    return list(value)


# A row of HumanEval (arXiv:2107.03374) has ``task_id``, ``prompt`` (imports, perhaps other
# functions, a signature and its documentation), ``entry_point``, ``test`` (defines
# ``check(candidate)``) and ``canonical_solution`` (the body).


def humaneval_problem(row: Mapping[str, Any], place: str) -> CodeProblem:
    """The problem of a row: its prompt is the task's setup and may stand before an answer."""
    beginning = text_field(row, "prompt", place)
    entry_point = text_field(row, "entry_point", place)
    answer = {
        "tests": [f"{text_field(row, 'test', place)}\n\ncheck({entry_point})\n"],
        "entry_point": entry_point,
        "setup": beginning,
        "prefix": beginning,
    }
    prompt = f"Complete this function:\n\n```python\n{beginning.rstrip()}\n```\n\n{INSTRUCTION}"
    solution = row.get("canonical_solution")
    return CodeProblem(
        problem=Problem(problem_id=text_field(row, "task_id", place), prompt=prompt, answer=answer),
        solution=solution if isinstance(solution, str) and solution.strip() else None,
    )


# A row of MBPP (arXiv:2108.07732) has ``task_id``, ``text`` (``prompt`` in the sanitized file),
# ``code``, ``test_list``, and may have ``test_setup_code`` or ``test_imports``.
# ``challenge_test_list`` counts like the others.

_SHOWN = 3
"""Tests that the prompt shows, as the paper does; without them the function has no name."""


def mbpp_problem(row: Mapping[str, Any], place: str) -> CodeProblem:
    """The problem of a row; the function is the one that its first test calls."""
    number = row.get("task_id")
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise DataError(f"{place}: 'task_id' must be a number or a text, got {number!r:.80}")
    tests = texts_field(row, "test_list", place)
    code = text_field(row, "code", place)
    before = row.get("test_setup_code") or ""
    task = text_field(row, "text" if row.get("text") is not None else "prompt", place)
    answer = {
        "tests": [
            *([text_field(row, "test_setup_code", place)] if before else []),
            *tests,
            *texts_field(row, "challenge_test_list", place),
        ],
        "entry_point": _called(tests, code, place),
        "setup": "\n".join(texts_field(row, "test_imports", place)),
        VISIBLE: {"tests": tests[:_SHOWN]},
    }
    shown = "\n".join(tests[:_SHOWN])
    prompt = (
        f"{task.strip()}\nIt has to pass these tests:\n\n```python\n{shown}\n```\n\n{INSTRUCTION}"
    )
    problem = Problem(problem_id=f"mbpp-{number}", prompt=prompt, answer=answer)
    return CodeProblem(problem=problem, solution=code)


def _called(tests: list[str], code: str, place: str) -> str:
    """The function of ``code`` that the tests call first."""
    try:
        body = ast.parse(code).body
        trees = [ast.parse(test) for test in tests]
    except SyntaxError as error:
        raise DataError(f"{place}: its code or its tests are not valid Python: {error}") from error
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = {node.name for node in body if isinstance(node, kinds)}
    targets = [each for node in body if isinstance(node, ast.Assign) for each in node.targets]
    defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    for node in (node for tree in trees for node in ast.walk(tree)):
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Name) and function.id in defined:
            return function.id
    raise DataError(f"{place}: no test calls anything that the code defines, {sorted(defined)}")


# A row of LiveCodeBench (arXiv:2403.07974) has ``question_id``, ``question_content``,
# ``starter_code``, ``public_test_cases`` and ``private_test_cases``. Cases are JSON, or JSON in a
# pickle, compressed, in base 64; the pickle is read without being run. A case has ``input``,
# ``output`` and ``testtype``: ``stdin``, or ``functional``, where the lines of the input are the
# arguments as JSON, and ``metadata`` names the function.

_STARS = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
)
USUAL_IMPORTS = "\n".join(
    [
        *(f"from {name} import *" for name in (*_STARS, "builtins", "typing")),
        *(f"import {name}" for name in _STARS),
        "sys.setrecursionlimit(50000)\n",
    ]
)
"""Lines before every program, those of LiveCodeBench's own grader in their order: of a name that
two modules have, the later stands, and ``copy`` and ``datetime`` are modules."""

_LARGEST = 1_000_000_000
_PLAIN_OPCODES = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"})
_TEXT_OPCODES = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})


def livecodebench_problem(row: Mapping[str, Any], place: str) -> CodeProblem:
    """The problem of a row, with its public and its private cases."""
    starter = text_field(row, "starter_code", place, empty=True)
    public, private = (
        _cases(row.get(name), f"{place}, {name}")
        for name in ("public_test_cases", "private_test_cases")
    )
    cases = [*public, *private]
    functional = any(case.get("testtype") == "functional" for case in cases)
    answer: dict[str, Any] = {"prefix": USUAL_IMPORTS}
    if functional:
        metadata = row.get("metadata")
        try:
            known: Any = json.loads(metadata) if isinstance(metadata, str) else metadata
            name = known["func_name"]
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{place}: 'metadata' names no func_name: {metadata!r:.80}") from error
        answer["entry_point"] = f"Solution.{name}" if "class Solution" in starter else str(name)
    answer["cases"] = [_case(case, place, functional=functional) for case in cases]
    if public:
        answer[VISIBLE] = {"cases": answer["cases"][: len(public)]}
    how = "The program reads standard input and prints its answer."
    if starter.strip():
        how = f"Begin with this:\n\n```python\n{starter.rstrip()}\n```"
    question = text_field(row, "question_content", place).strip()
    number = text_field(row, "question_id", place)
    prompt = f"{question}\n\n{how}\n\n{INSTRUCTION}"
    return CodeProblem(problem=Problem(problem_id=number, prompt=prompt, answer=answer))


def _case(case: Mapping[str, Any], place: str, *, functional: bool) -> dict[str, Any]:
    given = text_field(case, "input", place, empty=True)
    expected = text_field(case, "output", place, empty=True)
    if not functional:
        return {"stdin": given, "stdout": expected}
    try:
        arguments = [json.loads(line) for line in given.splitlines() if line.strip()]
        return {"args": arguments, "returns": json.loads(expected)}
    except ValueError as error:
        raise DataError(f"{place}: a case is not JSON: {error}") from error


def _cases(value: Any, place: str) -> list[Mapping[str, Any]]:
    if value is None or value == "":
        return []
    if isinstance(value, str):
        text = value if value.lstrip().startswith("[") else _unpacked(value, place)
        try:
            value = json.loads(text)
        except ValueError as error:
            raise DataError(f"{place}: cases are not JSON: {error}") from error
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise DataError(f"{place}: cases must be a list of objects, got {value!r:.80}")
    return value


def _unpacked(value: str, place: str) -> str:
    """The one text in a pickle, which is read and not run."""
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(value, validate=True), _LARGEST)
        opcodes = list(pickletools.genops(data))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise DataError(f"{place}: cases cannot be unpacked: {error}") from error
    names = {opcode.name for opcode, _, _ in opcodes}
    texts = [argument for opcode, argument, _ in opcodes if opcode.name in _TEXT_OPCODES]
    if len(texts) != 1 or names - _PLAIN_OPCODES - _TEXT_OPCODES or unpacking.unconsumed_tail:
        raise DataError(f"{place}: cases are not one packed text of at most {_LARGEST} bytes")
    return str(texts[0])


CODE_SETS: Mapping[str, Callable[[Mapping[str, Any], str], CodeProblem]] = MappingProxyType(
    {"humaneval": humaneval_problem, "mbpp": mbpp_problem, "livecodebench": livecodebench_problem}
)
"""Each data set's name, and what makes a problem of one of its rows."""


def load_code(path: Path, name: str) -> list[CodeProblem]:
    """The problems of a file of the shape ``name``, a key of CODE_SETS, in order."""
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
            raise DataError(
                f"{place}: the id {problem_id!r} was already used at {places[problem_id]}"
            )
        places[problem_id] = place
        parse_task(made.problem.answer, place)
        found.append(made)
    if not found:
        raise DataError(f"{path} holds no problems")
    return found


_AT_ONCE = 32
_UNCHECKED = Verdict(outcome=Outcome.CORRECT, reward=1.0)
"""Of a problem without a solution."""


def solvable(
    made: Iterable[CodeProblem], verifier: CodeVerifier, on_done: Callable[[int], None]
) -> ProblemsOfFile:
    """The problems whose own solution passes their tests, and those without a solution."""
    problems: list[Problem] = []
    dropped: list[tuple[str, str]] = []
    rest = iter(made)
    while chunk := list(islice(rest, _AT_ONCE)):
        pairs: list[CodePair | Verdict] = []
        for problem, solution in ((each.problem, each.solution) for each in chunk):
            if solution is None:
                pairs.append(_UNCHECKED)
            else:
                pairs.append(CodePair(parse_task(problem.answer, problem.problem_id), solution))
        judged = verifier.judge(pairs)
        for each, verdict in zip(chunk, (timed.verdict for timed in judged), strict=True):
            if verdict.outcome is Outcome.CORRECT:
                problems.append(each.problem)
            else:
                why = f"its own solution is {verdict.outcome}: {verdict.reason}"
                dropped.append((each.problem.problem_id, why))
        on_done(len(chunk))
    return ProblemsOfFile(problems=problems, dropped=dropped)
