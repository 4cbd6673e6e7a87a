import re
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils import get_json_schema

from dph.errors import SettingsError
from dph.records import Turn
from dph.tasks.environments import fault_of, tool_schema
from dph.tasks.environments.calls import (
    BadCall,
    ToolCall,
    json_calls,
    plain_calls,
    read_turns,
    tools_of,
    turns_text,
    with_names,
)
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
    described,
)


def call(body):
    return f"<tool_call>{body}</tool_call>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("The answer is 4.", []),
        ('{"name": "f", "arguments": {}}', []),
        ("</tool_call>", []),
        ("<TOOL_CALL>{}</TOOL_CALL>", []),
        (call('{"name": "f"}'), [ToolCall("f")]),
        (call('\n{"name": "f", "arguments": {"a": 1}}\n'), [ToolCall("f", {"a": 1})]),
        (call('{"name": "f", "id": "7", "type": "function"}'), [ToolCall("f")]),
        (call('{"name": "f"}') + " and " + call('{"name": "g"}'), [ToolCall("f"), ToolCall("g")]),
        ("<think>" + call("{}") + "</think>" + call('{"name": "f"}'), [ToolCall("f")]),
        # Text of an argument that looks like the end of the call, or like another call.
        *(
            (call(f'{{"name": "f", "arguments": {{"a": "{like}"}}}}'), [ToolCall("f", {"a": like})])
            for like in ("</tool_call>", "<tool_call>{}")
        ),
    ],
)
def test_json_calls(text, expected):
    assert json_calls(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<tool_call>", "not JSON"),
        (call(""), "not JSON"),
        (call("f(1)"), "not JSON"),
        (call('{"name": "f",}'), "not JSON"),
        ('<tool_call>{"name": "f"}', "</tool_call> is missing"),
        (call('{"name": "f"} {"name": "g"}'), "</tool_call> is missing"),
        (call(call('{"name": "f"}')), "not JSON"),
        (call('[{"name": "f"}]'), "a call is"),
        (call("{}"), "the name of a tool is text, got None"),
        (call('{"name": 1}'), "the name of a tool is text, got 1"),
        (call('{"name": "f", "arguments": "{}"}'), "arguments are an object"),
        (call('{"name": "f", "arguments": [1]}'), "arguments are an object"),
        (call('{"name": "f", "parameters": {}}'), "got 'parameters'"),
        (call('{"name": "f", "name": "g"}'), "twice"),
        (call('{"name": "f", "arguments": {"a": 1, "a": 2}}'), "twice"),
        (call('{"name": "f", "arguments": {"a": NaN}}'), "NaN is not a number"),
        (call('{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}"), "not JSON"),
        (call('{"name": "f", "arguments": {"a": ' + "[" * 100_000), "nested too deeply"),
        (call('{"name": "f", "arguments": {"a": "\x00"}}'), "not JSON"),
        *(("CALL", "a call is written"), ("CALL f", "a call is written")),
        ("CALL 'f'()", "a call is written"),
        ("CALL f(1", "ends with ')'"),
        ("CALL f(x)", "not JSON"),
        ("CALL f(1) and CALL g()", "ends with ')'"),
        ("CALL f(a=1, a=2)", "given twice"),
        ("CALL f(a=1, 2)", "by place stand before"),
        ("CALL f(NaN)", "NaN is not a number"),
        ('CALL f("a\nb")', "not JSON"),
        ("CALL f(__import__('os'))", "not JSON"),
    ],
)
def test_a_faulty_call_is_one_with_a_reason(text, reason):
    (found,) = plain_calls(text) if text.startswith("CALL") else json_calls(text)
    assert isinstance(found, BadCall)
    assert reason in found.reason
    assert len(found.reason) <= 300


@pytest.mark.parametrize("deep", [65, 500, 900])
def test_a_value_that_a_check_could_not_walk_through_is_no_call(deep):
    value = "[" * deep + "]" * deep
    faulty = (f'<tool_call>{{"name": "f", "arguments": {{"a": {value}}}}}</tool_call>', json_calls)
    for text, read in (faulty, (f"CALL f({value})", plain_calls)):
        (found,) = read(text)
        assert isinstance(found, BadCall)
        assert "nested too deeply" in found.reason


def test_what_follows_a_faulty_call_is_read_and_a_hundred_thousand_beginnings_are():
    text = call("{") + call('{"name": "f"}')
    assert [type(found) for found in json_calls(text)] == [BadCall, ToolCall]
    assert len(json_calls("<tool_call>{" * 100_000)) == 1
    assert len(json_calls("<tool_call>{</tool_call>" * 10_000)) == 10_000
    assert len(plain_calls("CALL f(\n" * 10_000)) == 10_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CALL f()", [ToolCall("f")]),
        ("Let me look.\nCALL f( )\n", [ToolCall("f")]),
        ('CALL f(1, "a, b)", [2])', [ToolCall("f", {}, (1, "a, b)", [2]))]),
        ("CALL f(a=1, b=null)\r\nCALL g()", [ToolCall("f", {"a": 1, "b": None}), ToolCall("g")]),
        ("CALL f(1, a=2)", [ToolCall("f", {"a": 2}, (1,))]),
        ("I will CALL f()", []),
        ("RESULT CALL f()", []),
        ("CALLS f()", []),
    ],
)
def test_plain_calls(text, expected):
    assert plain_calls(text) == expected


def tools(*names):
    return {"f": {"function": {"parameters": {"properties": dict.fromkeys(names)}}}}


def test_values_by_place_get_the_names_of_the_tool():
    assert with_names(ToolCall("f", {}, (1, 2)), tools("a", "b")) == ToolCall("f", {"a": 1, "b": 2})
    assert "takes 1 values, got 2" in with_names(ToolCall("f", {}, (1, 2)), tools("a")).reason
    assert "'a' is given twice" in with_names(ToolCall("f", {"a": 1}, (1,)), tools("a")).reason
    for call in (BadCall("no"), ToolCall("unknown", {}, (1,))):
        assert with_names(call, tools("a")) == call


TURNS = st.lists(st.builds(Turn, st.sampled_from(["", "look", "reset"]), st.text("a>: \n\x85look")))


@given(TURNS)
def test_the_text_of_a_trajectory_says_who_said_what_whatever_was_said(turns):
    assert read_turns(turns_text(turns)) == turns


def test_a_result_cannot_pass_for_a_turn_of_the_policy():
    said = Turn("look", "hall\n> in hall\nlook: hall")
    lines = turns_text([Turn("", "CALL look()"), said]).splitlines()
    assert [line for line in lines if line.startswith("> ")] == ["> CALL look()"]
    with pytest.raises(ValueError, match="begins with '> '"):
        read_turns("free text")


@pytest.mark.parametrize("kind", [Increment, IncrementTo, Everything])
def test_the_schemas_are_those_of_transformers(kind):
    tools = tools_of(kind())
    assert tools
    for tool in tools.values():
        assert tool_schema(tool) == get_json_schema(tool)


@pytest.mark.parametrize("hint", [typing.List, typing.Dict, typing.Tuple])  # noqa: UP006
def test_types_of_typing_without_their_parts_have_the_schemas_of_transformers(hint):
    tool = described(lambda text: text)
    tool.__annotations__ = {"text": hint | None, "return": dict[str, hint]}
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


def test_arguments_of_the_right_types_are_taken():
    some = [{}, {"maybe": None}, {"maybe": 3}, {"either": "x"}, {"color": "blue"}]
    some += [{"pair": [1, "b"]}, {"counts": {"a": 1}}, {"numbers": []}]
    assert [fault_of(TYPED, GOOD | more) for more in some] == [""] * len(some)
    assert "'flag' is missing" in fault_of(TYPED, {"text": "a", "numbers": []})


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
