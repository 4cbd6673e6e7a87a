"""Statements in ``<answer>`` elements and in the arguments of tool calls."""

import json
import re
from collections.abc import Iterator
from typing import Any

from dph.tasks.verifiers.sql.found_statement import ExtractedSQL, is_placeholder

_ANSWER = re.compile(r"<(/?)answer>", re.IGNORECASE)
_TOOL_CALL = re.compile(r"<(/?)tool_call>", re.IGNORECASE)
_ARGUMENTS = ("arguments", "parameters", "input")
_NAMES = ("sql", "query", "sql_query", "statement")


def answer_spans(response: str) -> list[tuple[int, int]]:
    """Where the insides of the ``<answer>`` elements lie, the last one first."""
    return list(_elements(_ANSWER, response))[::-1]


def tool_call_statement(response: str) -> ExtractedSQL | None:
    """The statement in the last tool call that has one."""
    for start, end in list(_elements(_TOOL_CALL, response))[::-1]:
        if statement := _argument(response[start:end]):
            return ExtractedSQL(statement, response[:start])
    alone = response.strip()
    if alone.startswith("{") and alone.endswith("}") and (statement := _argument(alone)):
        return ExtractedSQL(statement, "")
    return None


def _elements(tag: re.Pattern[str], response: str) -> Iterator[tuple[int, int]]:
    """The insides of a tag's elements; an opening tag ends one that is still open."""
    start: int | None = None
    for match in tag.finditer(response):
        if start is not None:
            yield start, match.start()
        start = None if match.group(1) else match.end()
    if start is not None:
        yield start, len(response)


def _argument(payload: str) -> str:
    """The SQL argument of a call, or ''."""
    call = _object(payload)
    inner = next((call[name] for name in _ARGUMENTS if name in call), call)
    arguments = _object(inner) if isinstance(inner, str) else inner
    if not isinstance(arguments, dict):
        return ""
    values = (arguments.get(name) for name in _NAMES)
    texts = (value.strip() for value in values if isinstance(value, str))
    return next((text for text in texts if text and not is_placeholder(text)), "")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, so it is not a call
        return {}
    return value if isinstance(value, dict) else {}
