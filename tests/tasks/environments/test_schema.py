"""Schemas of tools are those of transformers, and calls are held to them."""

import re

import pytest
from transformers.utils import get_json_schema

from dph.errors import SettingsError
from dph.tasks.environments import fault_of, tool_schema
from dph.tasks.environments.schema import tools_of
from environment_classes import (
    AnyNumber,
    ByPlaceAlone,
    Everything,
    Increment,
    IncrementTo,
    NoDescription,
    NoDocstring,
    NoTypes,
    OddType,
)


@pytest.mark.parametrize("kind", [Increment, IncrementTo, Everything])
def test_the_schemas_are_those_of_transformers(kind):
    tools = tools_of(kind())
    assert tools
    for tool in tools.values():
        assert tool_schema(tool) == get_json_schema(tool)


def test_public_methods_are_tools_and_nothing_else_is():
    assert list(tools_of(Everything())) == ["echo", "later", "typed"]
    assert list(tools_of(Increment())) == ["increment"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoTypes, "'text' of the tool 'tool' needs a type"),
        (NoDescription, "'text' of the tool 'tool' needs a line under 'Args:'"),
        (NoDocstring, "'tool' needs a docstring"),
        (OddType, "which JSON does not have"),
        (AnyNumber, "takes any number of values"),
        (ByPlaceAlone, "'text' of the tool 'tool' has no name in a call"),
    ],
)
def test_a_tool_that_a_model_could_not_call_is_refused_by_name(kind, message):
    with pytest.raises(SettingsError, match=message):
        tool_schema(kind().tool)


TYPED = tool_schema(Everything().typed)
GOOD = {"text": "a", "flag": True, "numbers": [1, 2]}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"maybe": None},
        {"maybe": 3},
        {"either": "x"},
        {"color": "blue"},
        {"pair": [1, "b"]},
        {"counts": {"a": 1}},
        {"numbers": []},
    ],
)
def test_arguments_of_the_right_types_are_taken(more):
    assert fault_of(TYPED, GOOD | more) == ""


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"text": 1}, "text is of type string, got 1"),
        ({"flag": 1}, "flag is of type boolean, got 1"),
        ({"numbers": "1"}, "numbers is of type array, got '1'"),
        ({"numbers": [1, True]}, r"numbers\[1\] is of type integer, got True"),
        ({"numbers": [1.5]}, r"numbers\[0\] is of type integer, got 1.5"),
        ({"pair": [1]}, "pair holds 2 values, got 1"),
        ({"pair": [1, 2]}, r"pair\[1\] is of type string"),
        ({"color": "green"}, "color is 'green'; allowed are 'red', 'blue'"),
        ({"size": "medium"}, "size is 'medium'; allowed are 'small', 'large'"),
        ({"maybe": "x"}, "maybe is of type integer, got 'x'"),
        ({"either": 1.5}, "either is of type integer or string"),
        ({"either": None}, "either is of type integer or string"),
        ({"counts": {"a": "1"}}, r"counts\['a'\] is of type integer"),
        ({"more": 1}, "there is no argument 'more'"),
        ({"self": 1}, "there is no argument 'self'"),
    ],
)
def test_a_fault_names_the_argument_and_what_is_allowed(more, reason):
    found = fault_of(TYPED, GOOD | more)
    assert re.search(reason, found), found


def test_a_missing_argument_is_named():
    assert "'flag' is missing" in fault_of(TYPED, {"text": "a", "numbers": []})
