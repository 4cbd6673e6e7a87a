"""Calls in a policy's text: what is one, what is none, and what is a faulty one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.records import Turn
from dph.tasks.environments.calls import (
    BadCall,
    ToolCall,
    json_calls,
    plain_calls,
    read_turns,
    turns_text,
    with_names,
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
        (
            call('{"name": "f", "arguments": {"a": "</tool_call>"}}'),
            [ToolCall("f", {"a": "</tool_call>"})],
        ),
        (
            call('{"name": "f", "arguments": {"a": "<tool_call>{}"}}'),
            [ToolCall("f", {"a": "<tool_call>{}"})],
        ),
    ],
)
def test_json_calls(text, expected):
    assert json_calls(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<tool_call>", "not JSON"),
        ("<tool_call>{", "not JSON"),
        (call(""), "not JSON"),
        (call("f(1)"), "not JSON"),
        (call("{'name': 'f'}"), "not JSON"),
        (call('{"name": "f",}'), "not JSON"),
        ('<tool_call>{"name": "f"}', "</tool_call> is missing"),
        (call('{"name": "f"} {"name": "g"}'), "</tool_call> is missing"),
        (call(call('{"name": "f"}')), "not JSON"),
        (call('[{"name": "f"}]'), "a call is"),
        (call('"f"'), "a call is"),
        (call("null"), "a call is"),
        (call("{}"), "the name of a tool is text, got None"),
        (call('{"name": 1}'), "the name of a tool is text, got 1"),
        (call('{"name": ["f"]}'), "the name of a tool is text"),
        (call('{"name": "f", "arguments": "{}"}'), "arguments are an object"),
        (call('{"name": "f", "arguments": [1]}'), "arguments are an object"),
        (call('{"name": "f", "arguments": null}'), "arguments are an object"),
        (call('{"name": "f", "parameters": {}}'), "got 'parameters'"),
        (call('{"name": "f", "name": "g"}'), "twice"),
        (call('{"name": "f", "arguments": {"a": 1, "a": 2}}'), "twice"),
        (call('{"name": "f", "arguments": {"a": NaN}}'), "NaN is not a number"),
        (call('{"name": "f", "arguments": {"a": -Infinity}}'), "-Infinity is not a number"),
        (call('{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}"), "not JSON"),
        (call('{"name": "f", "arguments": {"a": ' + "[" * 100_000), "nested too deeply"),
        (call('{"name": "f", "arguments": {"a": "\x00"}}'), "not JSON"),
    ],
)
def test_a_faulty_json_call_is_one_with_a_reason(text, reason):
    (found,) = json_calls(text)
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


def test_what_follows_a_faulty_call_is_read():
    text = call("{") + call('{"name": "f"}')
    assert [type(found) for found in json_calls(text)] == [BadCall, ToolCall]


def test_a_hundred_thousand_beginnings_are_read_in_no_time():
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CALL", "a call is written"),
        ("CALL f", "a call is written"),
        ("CALL 'f'()", "a call is written"),
        ("CALL f(", "not JSON"),
        ("CALL f(1", "ends with ')'"),
        ("CALL f(1,)", "not JSON"),
        ("CALL f(x)", "not JSON"),
        ("CALL f(g(1))", "not JSON"),
        ("CALL f('a')", "not JSON"),
        ("CALL f(1) and CALL g()", "ends with ')'"),
        ("CALL f(a=1, a=2)", "given twice"),
        ("CALL f(a=1, 2)", "by place stand before"),
        ("CALL f(NaN)", "NaN is not a number"),
        ('CALL f("a\nb")', "not JSON"),
        ("CALL f(__import__('os'))", "not JSON"),
    ],
)
def test_a_faulty_plain_call_is_one_with_a_reason(text, reason):
    (found,) = plain_calls(text)
    assert isinstance(found, BadCall)
    assert reason in found.reason


def tools(*names):
    """The schema of a tool ``f`` with these arguments."""
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
