"""Specification of the programs that solve a problem.

Fields of a problem's answer, each as JSON or as a text of JSON (parquet and CSV files):

* ``tests``: Python, a text or a list of texts, each one test: ``assert add(1, 2) == 3``.
* ``cases``: a list of ``{"stdin": ..., "stdout": ...}`` for programs that read and print, or of
  ``{"args": [...], "returns": ...}``, with ``kwargs`` if there are any, for functions.
* ``entry_point``: the function that is called, ``Class.method`` for a method; always for ``args``.
* ``setup``: Python that tests need and programs do not bring: imports, functions of the task.
* ``prefix``: what stands before an answer: the beginning that a model continued.
* ``same_as``: a response whose program says what is right, in place of all tests: another program
  has to print or return the same for the same ``inputs``: texts for standard input, or lists of
  arguments. Where there are none, those of ``cases`` are taken.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dph.errors import DataError
from dph.tasks.verifiers.sql.extraction import answer_spans
from dph.tasks.verifiers.turn import fenced_blocks, read_turn, without_quoted

# The program of a response is the first of these that is there:
#
# 1. the last block fenced by ``` or ~~~ that defines the entry point, if there is one;
# 2. the last block marked ``python`` (``py``, ``Python3``, ``{python}``), else the last block
# without a mark;
# 3. the response itself, if it continues a prefix (its first line is indented) or reads like
# Python: a line begins with ``def``, ``class``, ``import``, ``from``, ``print(``, an assignment or
# a ``for``, ``while``, ``if``, ``with`` or ``try`` up to its colon.
#
# Of a turn's answer (dph.tasks.verifiers.turn), and there inside of the last ``<answer>`` element,
# if there is one. A tag in a string on one line of a fenced block is part of a program.

_LONGEST = 250_000
_PYTHON = re.compile(r"i?py(?:thon)?[\d.]*")
MARK = "\ufeff"
"""The mark of the order of bytes: Python skips it at the beginning of a program."""
_STATEMENT = re.compile(
    r"^(?:(?:async )?def |class |import \w|from [\w.]+ import |print\(|@\w|[A-Za-z_]\w*+ ?= ?\S"
    r"|(?:for|while|if|with|try)\b[^\n:]*+:)",
    re.MULTILINE,
)
_ANSWER = re.compile(r"</?answer>", re.IGNORECASE)


def extract_program(response: str, *, entry_point: str = "", prefix: bool = False) -> str | None:
    r"""The program of a response by the module's rules, or None if there is none.

    Of a longer response the last 250,000 characters are searched.

    >>> extract_program("Here:\n```python\nprint(1)\n```\nIt prints 1.")
    'print(1)\n'
    """
    response = read_turn(response).answer[-_LONGEST:]
    if spans := answer_spans(without_quoted(_ANSWER, response)):
        response = response[slice(*spans[0])]
    response = response.removeprefix(MARK)
    found = fenced_blocks(response)
    if not found and not _reads_like_python(response, prefix):
        found = fenced_blocks(response, anywhere=True)
    blocks = [each for each in found if each.text.strip()]
    if not blocks:
        return response if _reads_like_python(response, prefix) else None
    name = re.escape(entry_point.partition(".")[0])
    annotation = r":[^=\n]*(?:\n[ \t\])][^=\n]*)*"
    defines = re.compile(
        rf"^{MARK}?(?:(?:(?:async +)?def|class) +{name}\b|{name} *(?:{annotation})?=(?!=))",
        re.MULTILINE,
    )
    choices = (
        [block for block in blocks if entry_point and defines.search(block.text)],
        [block for block in blocks if _PYTHON.fullmatch(block.mark)],
        [block for block in blocks if not block.mark],
    )
    return next((some[-1].text.removeprefix(MARK) for some in choices if some), None)


def _reads_like_python(response: str, prefix: bool) -> bool:
    first = next((line for line in response.splitlines() if line.strip()), "")
    continues = prefix and first.startswith((" ", "\t", "return "))
    return continues or _STATEMENT.search(response) is not None


FIELDS = ("tests", "cases")
"""One of them is in every problem."""
_TEXT_FIELDS = ("entry_point", "setup", "prefix", "same_as")
OTHER_FIELDS = (*_TEXT_FIELDS, "inputs")
_STDIO, _CALL = frozenset({"stdin", "stdout"}), frozenset({"args", "returns"})
_RESULTS = ("stdout", "returns")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTask:
    """The tests of a problem. Either ``scripts`` or the other tests are empty.

    With ``same_as``, a response that says what is right, ``scripts`` have no ``stdout`` and
    ``calls`` no ``returns``.
    """

    tests: tuple[str, ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    scripts: tuple[Mapping[str, str], ...] = ()
    entry_point: str = ""
    setup: str = ""
    prefix: str = ""
    same_as: str = ""


def parse_task(answer: Mapping[str, Any], where: str) -> CodeTask:
    """The tests of a problem's answer; ``where`` names it in messages."""
    cases = _cases(answer, where)
    tests = _tests(answer.get("tests"), where)
    texts = {name: _text(answer, name, where) for name in _TEXT_FIELDS}
    if texts["same_as"]:
        inputs = _inputs(answer, where)
        if not inputs and not cases:
            raise DataError(
                f"{where}: needs 'inputs' or 'cases' to compare programs on, and has neither"
            )
        unanswered = ({k: case[k] for k in case if k not in _RESULTS} for case in cases)
        tests, cases = [], inputs or list(unanswered)
    scripts = [case for case in cases if "stdin" in case]
    calls = [{"kwargs": {}, **case} for case in cases if "args" in case]
    if not (tests or cases):
        raise DataError(
            f"{where}: the code verifier needs 'tests' or 'cases', its fields are {sorted(answer)}"
        )
    if scripts and (calls or tests):
        raise DataError(f"{where}: cases of stdin and tests of functions cannot be mixed")
    names = texts["entry_point"].split(".")
    if calls and not (len(names) <= 2 and all(name.isidentifier() for name in names)):
        raise DataError(
            f"{where}: cases of args need 'entry_point', a function's name or Class.method, "
            f"got {texts['entry_point']!r}"
        )
    return CodeTask(tests=tuple(tests), calls=tuple(calls), scripts=tuple(scripts), **texts)


def _tests(value: Any, where: str) -> list[str]:
    if isinstance(value, str):
        value = _parsed(value) if value.lstrip().startswith("[") else value
    if isinstance(value, str):
        return [value] if value.strip() else []
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return list(value)
    raise DataError(f"{where}: 'tests' is Python, a text or a list of texts, got {value!r:.80}")


def _cases(answer: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    value = _parsed(answer.get("cases"))
    if value is None:
        return []
    if isinstance(value, list) and all(map(_is_case, value)):
        return list(value)
    raise DataError(
        f"{where}: 'cases' is a list of {{'stdin': ..., 'stdout': ...}}, both texts, or of "
        f"{{'args': [...], 'returns': ...}}, got {value!r:.80}"
    )


def _inputs(answer: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    value = _parsed(answer.get("inputs"))
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [{"stdin": each} for each in value]
    if isinstance(value, list) and all(isinstance(each, list) for each in value):
        return [{"args": each} for each in value]
    raise DataError(
        f"{where}: 'inputs' is a list of texts, or of lists of arguments, got {value!r:.80}"
    )


def _is_case(case: Any) -> bool:
    if not isinstance(case, dict):
        return False
    keys = set(case)
    if keys == _STDIO:
        return all(isinstance(text, str) for text in case.values())
    is_call = keys - {"kwargs"} == _CALL and isinstance(case["args"], list)
    return is_call and isinstance(case.get("kwargs", {}), dict)


def _parsed(value: Any) -> Any:
    """The JSON of a text; what is none stays what it is."""
    try:
        return json.loads(value or "null") if isinstance(value, str) else value
    except ValueError:
        return value if value.strip() else None


def _text(answer: Mapping[str, Any], name: str, where: str) -> str:
    value = answer.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: {name!r} is a text, got {value!r:.80}")
    return value
