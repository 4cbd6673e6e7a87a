"""Tools of a class: JSON schemas from signatures and Google-style docstrings, and their checks.

The schemas are those of transformers' ``get_json_schema``, which chat templates know; a test holds
both equal. They are made here without transformers, which takes seconds to import, because the
process that runs a class makes them.
"""

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dph.errors import SettingsError

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
    """The schema of a result; empty for a type that JSON does not have, which harms nobody."""
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
    if origin is None:
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
    if isinstance(value, list):
        return _fault_of_items(schema, value, place)
    if isinstance(value, dict) and "additionalProperties" in schema:
        inside = schema["additionalProperties"]
        found = (_fault(inside, each, f"{place}[{key!r:.40}]") for key, each in value.items())
        return next(filter(None, found), "")
    return ""


def _fault_of_items(schema: Schema, value: list[Any], place: str) -> str:
    each = schema.get("prefixItems")
    if each is not None and len(each) != len(value):
        return f"{place} holds {len(each)} values, got {len(value)}"
    kinds = each if each is not None else [schema.get("items", {})] * len(value)
    pairs = zip(kinds, value, strict=True)
    faults = (_fault(kind, one, f"{place}[{i}]") for i, (kind, one) in enumerate(pairs))
    return next(filter(None, faults), "")
