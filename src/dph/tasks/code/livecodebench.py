"""LiveCodeBench (arXiv:2403.07974), and files of its shape.

A row has ``question_id``, ``question_content``, ``starter_code``, ``public_test_cases`` and
``private_test_cases``. Cases are JSON, or JSON in a pickle, compressed, in base 64; the pickle is
read without being run. A case has ``input``, ``output`` and ``testtype``: ``stdin``, or
``functional``, where the lines of the input are the arguments as JSON, and ``metadata`` names the
function.
"""

import base64
import binascii
import json
import pickletools
import zlib
from collections.abc import Mapping
from typing import Any

from dph.errors import DataError
from dph.records import Problem
from dph.tasks.code.row import INSTRUCTION, CodeProblem, text_field

USUAL_IMPORTS = """\
import bisect, collections, copy, functools, heapq, itertools
import math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
from builtins import *
"""
"""What stands before every program, as where the problems come from."""

_LARGEST = 1_000_000_000
_PLAIN_OPCODES = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"})
_TEXT_OPCODES = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})


def livecodebench_problem(row: Mapping[str, Any], place: str) -> CodeProblem:
    """The problem of a row, with its public and its private cases.

    Raises:
        DataError: a field is missing or malformed.
    """
    starter = text_field(row, "starter_code", place, empty=True)
    cases = [
        each
        for name in ("public_test_cases", "private_test_cases")
        for each in _cases(row.get(name), f"{place}, {name}")
    ]
    functional = any(case.get("testtype") == "functional" for case in cases)
    answer: dict[str, Any] = {"prefix": USUAL_IMPORTS}
    if functional:
        answer["entry_point"] = _entry_point(row, starter, place)
        answer["cases"] = [_call(case, place) for case in cases]
    else:
        answer["cases"] = [_script(case, place) for case in cases]
    return CodeProblem(
        problem=Problem(
            problem_id=text_field(row, "question_id", place),
            prompt=_prompt(text_field(row, "question_content", place), starter),
            answer=answer,
        )
    )


def _prompt(question: str, starter: str) -> str:
    if starter.strip():
        how = f"Begin with this:\n\n```python\n{starter.rstrip()}\n```"
    else:
        how = "The program reads standard input and prints its answer."
    return f"{question.strip()}\n\n{how}\n\n{INSTRUCTION}"


def _entry_point(row: Mapping[str, Any], starter: str, place: str) -> str:
    metadata = row.get("metadata")
    try:
        known: Any = json.loads(metadata) if isinstance(metadata, str) else metadata
        name = known["func_name"]
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{place}: 'metadata' names no func_name: {metadata!r:.80}") from error
    return f"Solution.{name}" if "class Solution" in starter else str(name)


def _script(case: Mapping[str, Any], place: str) -> dict[str, str]:
    return {
        "stdin": text_field(case, "input", place, empty=True),
        "stdout": text_field(case, "output", place, empty=True),
    }


def _call(case: Mapping[str, Any], place: str) -> dict[str, Any]:
    texts = _script(case, place)
    try:
        arguments = [json.loads(line) for line in texts["stdin"].splitlines() if line.strip()]
        return {"args": arguments, "returns": json.loads(texts["stdout"])}
    except ValueError as error:
        raise DataError(f"{place}: a case is no JSON: {error}") from error


def _cases(value: Any, place: str) -> list[Mapping[str, Any]]:
    if value is None or value == "":
        return []
    if isinstance(value, str):
        text = value if value.lstrip().startswith("[") else _unpacked(value, place)
        try:
            value = json.loads(text)
        except ValueError as error:
            raise DataError(f"{place}: cases are no JSON: {error}") from error
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise DataError(f"{place}: cases are a list of objects, got {value!r:.80}")
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
