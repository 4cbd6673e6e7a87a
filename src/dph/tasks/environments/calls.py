"""Calls of tools in the text of a policy, and the text of a whole trajectory.

Two forms. ``json`` is that of the chat templates of Qwen, SmolLM, Hermes and others:

    <tool_call>{"name": "query", "arguments": {"sql": "SELECT 1"}}</tool_call>

``plain`` is for small models that were taught no template: a line, values in JSON, by place or by
name:

    CALL query("SELECT 1")
    CALL add(2, step=3)

Nothing is evaluated, and a text is read once from left to right. Only what the policy wrote is ever
read: results of tools are not, so a result that contains a call is text.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dph.errors import SettingsError
from dph.records import Turn
from dph.tasks.verifiers.turn import read_turn

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_BLANKS = re.compile(r"\s*")
_LINE = re.compile(r"^CALL\b[ \t]*", re.MULTILINE)
_NAME = re.compile(r"(\w+)[ \t]*\([ \t]*")
_KEY = re.compile(r"([A-Za-z_]\w*)[ \t]*=(?!=)[ \t]*")
_REST_OF_LINE = re.compile(r"[ \t\r]*\Z")
_SHOWN = 80
_DEEPEST = 64
"""Values inside values that a call may have: the checks of its types recurse into them."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool and its arguments. ``places`` are values without a name, in the tool's own order."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class BadCall:
    """Something that began like a call and is not one."""

    reason: str


Call = ToolCall | BadCall


class _CallError(ValueError):
    """A text that is not a call."""


def json_calls(text: str) -> list[Call]:
    """Calls of the form ``json``, in order, after the thoughts.

    >>> json_calls('<tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>')
    [ToolCall(name='f', arguments={'n': 1}, places=())]
    >>> json_calls("no call"), json_calls("<tool_call>{")[0].reason[:24]
    ([], 'the call is not JSON: {,')
    """
    found: list[Call] = []
    text, at = read_turn(text).answer, 0
    while (begin := text.find(_OPEN, at)) >= 0:
        inside = begin + len(_OPEN)
        try:
            call, at = _json_call(text, inside)
            found.append(call)
        except _CallError as error:
            found.append(BadCall(str(error)))
            # Go on after the end of the faulty call; what may stand inside it is no call.
            end = text.find(_CLOSE, inside)
            at = len(text) if end < 0 else end + len(_CLOSE)
    return found


def _json_call(text: str, begin: int) -> tuple[ToolCall, int]:
    start = _skip(_BLANKS, text, begin)
    value, end = _value(text, start)
    end = _skip(_BLANKS, text, end)
    if not text.startswith(_CLOSE, end):
        raise _CallError(f"{_CLOSE} is missing after the call, got {text[end : end + _SHOWN]!r}")
    if not isinstance(value, dict):
        raise _CallError(
            f'a call is an object {{"name": ..., "arguments": ...}}, got {value!r:.80}'
        )
    if more := [key for key in value if key not in ("name", "arguments", "id", "type")]:
        raise _CallError(f"a call has a name and arguments, got {more[0]!r:.80}")
    name, arguments = value.get("name"), value.get("arguments", {})
    if not isinstance(name, str):
        raise _CallError(f"the name of a tool is text, got {name!r:.80}")
    if not isinstance(arguments, dict):
        raise _CallError(f"arguments are an object of names and values, got {arguments!r:.80}")
    return ToolCall(name, arguments), end + len(_CLOSE)


def plain_calls(text: str) -> list[Call]:
    r"""Calls of the form ``plain``, in order: lines that begin with ``CALL``.

    >>> plain_calls('I add.\nCALL add(2, step=3)')
    [ToolCall(name='add', arguments={'step': 3}, places=(2,))]
    >>> plain_calls("CALL add(2")
    [BadCall(reason="a call ends with ')' and its line, got ''")]
    """
    found: list[Call] = []
    for line in _LINE.finditer(text):
        try:
            found.append(_plain_call(text, line.end()))
        except _CallError as error:
            found.append(BadCall(str(error)))
    return found


def _plain_call(text: str, begin: int) -> ToolCall:
    line = text[begin:].split("\n", 1)[0]
    name = _NAME.match(line)
    if name is None:
        raise _CallError(f"a call is written CALL name(values), got {line[:_SHOWN]!r}")
    at = name.end()
    places: list[Any] = []
    arguments: dict[str, Any] = {}
    more = not line.startswith(")", at)
    while more:
        key = _KEY.match(line, at)
        value, at = _value(line, key.end() if key else at)
        if key is None:
            if arguments:
                raise _CallError(f"values by place stand before those by name, got {value!r:.80}")
            places.append(value)
        elif key[1] in arguments:
            raise _CallError(f"the argument {key[1]!r:.80} is given twice")
        else:
            arguments[key[1]] = value
        at = _skip(_BLANKS, line, at)
        more = line.startswith(",", at)
        at = _skip(_BLANKS, line, at + more)
    if not line.startswith(")", at) or not _REST_OF_LINE.match(line, at + 1):
        raise _CallError(f"a call ends with ')' and its line, got {line[at : at + _SHOWN]!r}")
    return ToolCall(name[1], arguments, tuple(places))


def _skip(blanks: re.Pattern[str], text: str, at: int) -> int:
    found = blanks.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[Any, int]:
    """A JSON value at ``at``, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, at)
        _require_shallow(value)
        return value, end
    except _CallError:
        raise
    except (ValueError, RecursionError) as error:  # not JSON, a number of 5,000 digits, depth
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _CallError(f"the call is not JSON: {text[at : at + _SHOWN]}, {what}"[:200]) from error


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        outer = [each for each in level if isinstance(each, dict | list)]
        level = [one for e in outer for one in (e.values() if isinstance(e, dict) else e)]
    if any(isinstance(each, dict | list) for each in level):
        raise RecursionError


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _CallError("a name appears twice in one object")
    return made


def _no_number(name: str) -> Any:
    raise _CallError(f"{name} is not a number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)

FORMS: Mapping[str, Callable[[str], list[Call]]] = MappingProxyType(
    {"json": json_calls, "plain": plain_calls}
)
"""Forms of calls by their names."""


def with_names(call: Call, tools: Mapping[str, Mapping[str, Any]]) -> Call:
    """The call with the names of its ``places``, by the schemas of the tools."""
    if isinstance(call, BadCall) or not call.places or call.name not in tools:
        return call
    names = list(tools[call.name]["function"]["parameters"]["properties"])
    if len(call.places) > len(names):
        return BadCall(f"{call.name} takes {len(names)} values, got {len(call.places)}")
    placed = dict(zip(names, call.places, strict=False))
    if twice := [name for name in placed if name in call.arguments]:
        return BadCall(f"the argument {twice[0]!r} is given twice")
    return ToolCall(call.name, {**placed, **call.arguments})


_POLICY, _NEXT = "> ", "  "


def turns_text(turns: Sequence[Turn]) -> str:
    r"""The turns as text: a turn begins with ``> `` or with its tool's name, in the first column.

    Further lines of a turn are indented, so a result that looks like a turn of the policy, or the
    other way round, stays what it is. ``read_turns`` is the inverse.

    >>> print(turns_text([Turn("", 'CALL look("cup")'), Turn("look", "hall\n> in bath")]))
    > CALL look("cup")
    look: hall
      > in bath
    """
    lines = []
    for turn in turns:
        first, *others = turn.text.split("\n")
        lines.append(f"{turn.by}: {first}" if turn.by else f"{_POLICY}{first}")
        lines += [f"{_NEXT}{line}" for line in others]
    return "\n".join(lines)


def read_turns(text: str) -> list[Turn]:
    """The turns of a text of ``turns_text``.

    Raises:
        ValueError: it is another text.
    """
    found: list[tuple[str, list[str]]] = []
    for line in text.split("\n") if text else ():
        name, colon, said = line.partition(": ")
        if line.startswith(_NEXT) and found:
            found[-1][1].append(line.removeprefix(_NEXT))
        elif line.startswith(_POLICY):
            found.append(("", [line.removeprefix(_POLICY)]))
        elif colon and name.isidentifier():
            found.append((name, [said]))
        else:
            raise ValueError(f"a turn begins with '> ' or the name of a tool, got {line!r:.80}")
    return [Turn(by, "\n".join(lines)) for by, lines in found]


def require_chat_form(form: str, engine: str) -> None:
    """Refuse calls that another engine, which parses those of a chat, would not find."""
    if form != "json":
        raise SettingsError(f"{engine} parses calls of a chat, form='json', got form={form!r}")
