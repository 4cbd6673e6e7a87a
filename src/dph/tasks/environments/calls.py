"""Tools of a class: calls of them in the text of a policy, and the schemas that calls must fit.

Calls have two forms. ``json`` is that of the chat templates of Qwen, SmolLM, Hermes and others:

    <tool_call>{"name": "query", "arguments": {"sql": "SELECT 1"}}</tool_call>

``plain`` is for small models that were taught no template: a line, values in JSON, by place or by
name:

    CALL query("SELECT 1")
    CALL add(2, step=3)

Nothing is evaluated, and a text is read once from left to right. Only what the policy wrote is ever
read: results of tools are not, so a result that contains a call is text.
"""

import inspect
import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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
        level = [value]
        for _ in range(_DEEPEST + 1):
            outer = [each for each in level if isinstance(each, dict | list)]
            level = [one for e in outer for one in (e.values() if isinstance(e, dict) else e)]
        if outer:
            raise RecursionError
        return value, end
    except _CallError:
        raise
    except (ValueError, RecursionError) as error:  # not JSON, a number of 5,000 digits, depth
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _CallError(f"the call is not JSON: {text[at : at + _SHOWN]}, {what}"[:200]) from error


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


# Schemas of tools are those of transformers' ``get_json_schema``, which chat templates know; a test
# holds both equal. They are made here without transformers, which takes seconds to import, because
# the process that runs a class makes them.

Schema = Mapping[str, Any]
"""JSON Schema of a value, or the ``{"type": "function", "function": {...}}`` of a tool."""

RESERVED = ("reset", "get_reward")
"""Public methods of an environment that are not tools."""

_BASIC: Mapping[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "string": str,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Note):\s*$")
_ARGUMENT = re.compile(r"^(\w+)(?: *\([^)]*\))?:\s*(.*)$")


def tools_of(instance: object) -> dict[str, Callable[..., Any]]:
    """Public methods of an environment by their names, in alphabetical order."""
    found = inspect.getmembers(instance, predicate=inspect.ismethod)
    return {n: method for n, method in found if not n.startswith("_") and n not in RESERVED}


def tool_schema(tool: Callable[..., Any]) -> dict[str, Any]:
    """The schema of a tool, as a chat template takes it.

    Raises:
        SettingsError: an argument has no type, one that JSON does not have, or no description; or
            the tool has no docstring.
    """
    name = getattr(tool, "__name__", "tool")
    summary, described = _docstring(inspect.getdoc(tool) or "")
    if not summary:
        raise SettingsError(f"the tool {name!r} needs a docstring: the model reads what it does")
    try:
        hints = get_type_hints(tool)
    except (NameError, TypeError) as error:
        raise SettingsError(f"the types of the tool {name!r} cannot be read: {error}") from error
    properties: dict[str, Any] = {}
    required = []
    for argument, parameter in inspect.signature(tool).parameters.items():
        place = f"the argument {argument!r} of the tool {name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise SettingsError(f"{place} takes any number of values; name each argument")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise SettingsError(f"{place} has no name in a call: it stands before '/'")
        if argument not in hints:
            raise SettingsError(f"{place} needs a type, such as {argument}: int")
        if argument not in described:
            raise SettingsError(f"{place} needs a line under 'Args:' of the docstring")
        schema = dict(_of_type(hints[argument], place))
        properties[argument] = schema | {"description": described[argument]}
        if parameter.default is parameter.empty:
            required.append(argument)
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    function = {"name": name, "description": summary, "parameters": parameters}
    if "return" in hints and (returned := _returned(hints["return"], tool.__doc__ or "")):
        function["return"] = returned  # Qwen's templates show it to the model
    return {"type": "function", "function": function}


def _returned(hint: Any, docstring: str) -> Schema:
    """The schema of a result; empty for a type that JSON does not have, which is harmless."""
    try:
        schema = _of_type(hint, "the result")
    except SettingsError:
        return {}
    described = docstring.partition("Returns:\n")[2].partition("Raises:")[0].strip()
    return {**schema, "description": described} if described else schema


def documented(tool: Callable[..., Any]) -> str:
    """The docstring of a tool with a line for each argument that it leaves out."""
    summary, described = _docstring(inspect.getdoc(tool) or "")
    names = list(inspect.signature(tool).parameters)
    lines = [f"    {name}: {described.get(name) or name}" for name in names]
    return "\n".join([summary, "", "Args:", *lines] if lines else [summary])


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description in front of all sections, and that of each argument."""
    summary: list[str] = []
    described: dict[str, str] = {}
    section, indent, current = "", 0, ""
    for line in text.strip().splitlines():
        stripped = line.strip()
        if heading := _SECTION.match(line):
            section, indent, current = heading[1], 0, ""
        elif not section:
            summary.append(stripped)
        elif section in ("Args", "Arguments", "Parameters") and stripped:
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            found = _ARGUMENT.match(stripped) if depth <= indent else None
            if found:
                current = found[1]
                described[current] = found[2]
            elif current:
                described[current] = f"{described[current]} {stripped}".strip()
    return "\n".join(summary).strip(), described


def _of_type(hint: Any, place: str) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if not arguments:
        hint = origin or hint  # that of typing.List is list
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _choices([member.value for member in hint], place)
        if hint in _BASIC:
            return _BASIC[hint]
    elif origin in (Union, types.UnionType):
        return _union([each for each in arguments if each is not type(None)], arguments, place)
    elif origin is Literal:
        return _choices(list(arguments), place)
    elif origin is list:
        return {"type": "array", "items": _of_type(arguments[0], place)}
    elif origin is tuple and ... not in arguments and len(arguments) > 1:
        return {"type": "array", "prefixItems": [_of_type(each, place) for each in arguments]}
    elif origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": _of_type(arguments[1], place)}
    raise SettingsError(
        f"{place} is of the type {hint!r}, which JSON does not have; allowed are int, float, str, "
        "bool, list, dict, tuple, Literal, Enum, and unions of these"
    )


def _union(some: Sequence[Any], every: Sequence[Any], place: str) -> Schema:
    kinds = [_of_type(each, place) for each in some]
    if len(kinds) == 1:
        made = dict(kinds[0])
    elif all(kind.keys() == {"type"} and isinstance(kind["type"], str) for kind in kinds):
        names = sorted({kind["type"] for kind in kinds})
        made = {"type": names[0] if len(names) == 1 else names}
    else:
        made = {"anyOf": kinds}
    return made | {"nullable": True} if len(some) < len(every) else made


def _choices(values: list[Any], place: str) -> Schema:
    names = {kind: _BASIC[kind]["type"] for kind in (int, float, str, bool, type(None))}
    if not values or any(type(value) not in names for value in values):
        raise SettingsError(f"{place} allows {values!r}, which are not all text, numbers or null")
    kinds = list(dict.fromkeys(names[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def clean(text: str) -> str:
    """Text that can be encoded: halves of surrogate pairs become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fault_of(schema: Schema, arguments: Mapping[str, Any]) -> str:
    """Reason why a tool cannot be called with these arguments; '' where it can."""
    function = schema["function"]
    properties = function["parameters"]["properties"]
    takes = f"{function['name']} takes {', '.join(properties) or 'no arguments'}"
    if unknown := [name for name in arguments if name not in properties]:
        return f"{takes}; there is no argument {unknown[0]!r:.80}"
    missing = [n for n in function["parameters"].get("required", ()) if n not in arguments]
    if missing:
        return f"{takes}; {missing[0]!r} is missing"
    for name, value in arguments.items():
        if fault := _fault(properties[name], value, name):
            return fault
    return ""


def _fault(schema: Schema, value: Any, place: str) -> str:
    if value is None and schema.get("nullable"):
        return ""
    if "anyOf" in schema:
        faults = [_fault(each, value, place) for each in schema["anyOf"]]
        return "" if "" in faults else faults[0]
    if "enum" in schema and not any(
        type(value) is type(each) and value == each for each in schema["enum"]
    ):
        allowed = ", ".join(repr(each) for each in schema["enum"])
        return f"{place} is {value!r:.80}; allowed are {allowed}"
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if isinstance(value, bool):  # in Python True is an integer; in JSON it is not
            fits = "boolean" in names
        else:
            fits = any(isinstance(value, _TYPES[name]) for name in names)
        if not fits:
            return f"{place} is of type {' or '.join(names)}, got {value!r:.80}"
    inside: list[tuple[Any, Schema, Any]] = []
    if isinstance(value, list):
        kinds = schema.get("prefixItems", [schema.get("items", {})] * len(value))
        if len(kinds) != len(value):
            return f"{place} holds {len(kinds)} values, got {len(value)}"
        inside = [(i, *pair) for i, pair in enumerate(zip(kinds, value, strict=True))]
    elif isinstance(value, dict) and "additionalProperties" in schema:
        inside = [(key, schema["additionalProperties"], each) for key, each in value.items()]
    found = (_fault(kind, each, f"{place}[{key!r:.40}]") for key, kind, each in inside)
    return next(filter(None, found), "")
