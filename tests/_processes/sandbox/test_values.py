import datetime
import json
import os
import socket
import threading
from array import array
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph._processes.sandbox.judge import same_value
from dph._processes.sandbox.supervisor import memory_file
from dph._processes.sandbox.values import (
    LARGEST_MESSAGE,
    BadValueError,
    Channel,
    ChannelBrokenError,
    ChannelClosedError,
    ProgramError,
    ProgramGoneError,
    RefusedError,
    RemoteProgram,
    decode,
    encode,
    is_of_program,
    read_document,
)


def no_reference(value):
    raise AssertionError(f"{value!r} is not plain")


def no_name(name, _content):
    raise BadValueError(name)


def over(value):
    return decode(json.loads(json.dumps(encode(value, no_reference))), no_name)


SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.fractions()),
    *(s(allow_nan=False) for s in (st.floats, st.complex_numbers, st.decimals)),
    *(st.datetimes(), st.dates(), st.times(), st.timedeltas()),
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(deque),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
    ),
    max_leaves=10,
)


@given(VALUES)
def test_a_plain_value_comes_over_equal_and_of_the_same_type(value):
    found = over(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(10**4000),
        float("inf"),
        "\ud800",
        range(3, 10**20, 7),
        bytearray(b"a\0"),
        array("d", [0.5, 2.0]),
        datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
        Decimal("NaN"),
        Fraction(1, 3),
        {1: "a", "1": "b"},
        {"b": 1, "a": 2}.keys(),
        {"b": 1, "a": 2}.items(),
        slice(1, None, 2),
        Ellipsis,
        NotImplemented,
    ],
)
def test_what_json_does_not_know_comes_over(value):
    assert repr(over(value)) == repr(value)


class Size(IntEnum):
    LARGE = 3


class LyingInt(int):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __index__(self):
        return 5


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Size.LARGE, 3),
        (LyingInt(7), 7),
        ({"a": 1}.keys(), {"a": 1}.keys()),
        ({"a": 1}.items(), {"a": 1}.items()),
    ],
)
def test_of_a_subclass_the_plain_value_comes_over(value, plain):
    found = over(value)
    assert found == plain
    assert type(found) is type(plain)


@pytest.mark.parametrize(
    "value",
    [Counter("aab"), OrderedDict(b=1, a=2), defaultdict(int, a=1), numpy.array([[1.5, 2.0]])],
)
def test_a_container_of_the_library_comes_over_as_what_it_is(value):
    found = over(value)
    assert type(found) is type(value)
    assert str(found) == str(value)


def test_a_namedtuple_comes_over_as_a_tuple_and_types_of_python_as_themselves():
    assert over(Point(1, 2)) == (1, 2)
    assert type(over(Point(1, 2))) is tuple
    assert over([int, list, type(None), Counter]) == [int, list, type(None), Counter]
    found = over({"a": 1, "b": 1}.values())
    assert list(found) == [1, 1]
    assert found != [1, 1]


def test_another_object_is_a_reference_and_a_value_that_holds_itself_too_deep():
    told = []
    found = encode([Size, 1], lambda value: told.append(value) or {"object": 5})
    assert (found, told) == ([{"object": 5}, 1], [Size])
    assert decode(found, lambda name, content: (name, content)) == [("object", 5), 1]
    value = []
    value.append(value)
    with pytest.raises(RecursionError):
        encode(value, no_reference)


@pytest.mark.parametrize(
    "data",
    [
        *({}, {"int": "1", "tuple": []}, {"int": "zz"}, {"int": 5}, {"code": "x"}, {"tuple": 5}),
        *({"dict": [[1]]}, {"dict": [[[], 1]]}, {"set": [[1]]}, {"bytes": "0"}),
        *({"Fraction": ["0x1", "0x0"]}, {"Decimal": "1 2"}, {"range": [1, 2, 0]}),
        *({"range": [{"object": 1}, 2, 3]}, {"datetime": "now"}, {"array": ["Q", [-1]]}),
        *({"timedelta": [1e300, 0, 0]}, {"type": "Popen"}),
        *({"ndarray": ["|O8", [1], "00"]}, {"ndarray": ["<f8", [2], "00"]}),
    ],
)
def test_what_is_no_value_is_refused(data):
    with pytest.raises(BadValueError):
        decode(data, no_name)


class Always:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


@pytest.mark.parametrize(
    ("same", "pairs"),
    [
        (True, [(1, 1), (1, 1.0), (True, 1), ((1, [2, (3,)]), [1, [2, [3]]]), (None, None)]),
        (True, [({1: "a", "b": (2,)}, {"1": "a", "b": [2]}), ("a", "a")]),
        (False, [(1, "1"), ("1", 1), ([1], 1), ([1, 2], [2, 1]), ([1], [1, 1]), ({1}, [1])]),
        (False, [({"a": 1}, {"a": 1, "b": 2}), ({1: 1, "1": 1}, {"1": 1}), (None, 0)]),
        (False, [(float("nan"), float("nan")), (1 + 0j, 1), (b"a", "a"), ({}, [])]),
        (False, [(Always(), 5), ([Always()], [5])]),  # which lie about their equality
    ],
)
def test_what_json_cannot_tell_apart_is_the_same_and_nothing_else(same, pairs):
    for value, expected in pairs:
        assert bool(same_value(value, expected)) is same, (value, expected)


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_messages_come_over_whole_and_in_order_and_none_that_is_too_long(ends):
    one, other = (Channel(end.fileno()) for end in ends)
    messages = [[], {"a": [None, 1.5, "\ud800"]}, "x" * 3_000_000]
    thread = threading.Thread(target=lambda: [one.send(message) for message in messages])
    thread.start()
    assert [other.receive() for _ in messages] == messages
    thread.join()
    with pytest.raises(ChannelBrokenError, match="32000000 allowed"):
        Channel(ends[0].fileno()).send("x" * LARGEST_MESSAGE)


def test_an_end_is_told_from_a_broken_message(ends):
    one, other = ends
    channel = Channel(other.fileno())
    one.send((3).to_bytes(8, "little") + b"{]}")
    with pytest.raises(ChannelBrokenError, match="no JSON"):
        channel.receive()
    one.send((LARGEST_MESSAGE + 1).to_bytes(8, "little"))
    with pytest.raises(ChannelBrokenError, match="allowed"):
        channel.receive()
    one.send(b"\0\0\0")
    one.close()
    with pytest.raises(ChannelClosedError):
        channel.receive()
    with pytest.raises(ChannelClosedError):
        channel.send("x")


def test_a_document_is_read_from_a_descriptor_that_nobody_can_change():
    descriptor = memory_file('{"a": "\ud800"}')
    with pytest.raises(PermissionError):
        os.write(descriptor, b"x")
    assert read_document(descriptor) == {"a": "\ud800"}


@pytest.fixture
def conversation():
    """Make a program that gives these answers, one for each question, and notes the questions."""
    sockets, threads = [], []

    def start(*answers):
        ours, theirs = socket.socketpair()
        sockets.extend([ours, theirs])
        questions, channel = [], Channel(theirs.fileno())

        def answer():
            for each in answers:
                if each[0] not in ("loaded", "failed"):
                    questions.append(channel.receive())
                channel.send(each)
            theirs.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=answer)
        threads.append(thread)
        thread.start()
        return RemoteProgram(Channel(ours.fileno())), questions

    yield start
    for each in sockets:
        each.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    for each in sockets:
        each.close()


def test_a_call_gives_a_value_and_says_what_it_was(conversation):
    program, questions = conversation(["value", {"tuple": [1]}])
    assert program.function("f")((2,), x=3) == (1,)
    assert questions == [["call", "f", [{"tuple": [2]}], {"dict": [["x", 3]]}]]
    assert program.last == "f((2,)) gave (1,)"
    assert program.asked == 1


def test_an_iterator_is_asked_for_its_elements_one_by_one(conversation):
    program, questions = conversation(
        ["value", {"iterator": 4}], ["value", [7]], ["value", [8]], ["value", []]
    )
    values = program.function("f")()
    assert len(questions) == 1
    assert [next(values), *values] == [7, 8]
    assert questions[1:] == [["next", 4, 1]] * 3


@pytest.mark.parametrize("inside", [False, True])
def test_an_object_ends_the_tests_whatever_they_do_with_it(conversation, inside):
    content = {"object": "X"}
    program, _ = conversation(["value", [content] if inside else content])
    for _ in range(2):
        with pytest.raises(ProgramGoneError, match=r"returned an object of the type X"):
            program.function("f")()
    assert "f() returned an object" in program.failure


def test_an_exception_of_python_comes_over_as_itself_and_any_other_as_its_nearest_base(
    conversation,
):
    program, _ = conversation(
        ["raised", ["program:Own", "KeyError", "LookupError", "Exception", "object"], "k", None],
        ["raised", ["UnicodeDecodeError", "ValueError", "Exception"], "five arguments", None],
        ["raised", ["OSError", "Exception", "BaseException"], "[Errno 2] no", [2, "no"]],
        ["raised", ["program:Own", "Exception"], "mine", None],
        ["raised", ["StopIteration", "Exception"], "", []],
    )
    with pytest.raises(KeyError, match="k") as caught:
        program.function("f")()
    assert is_of_program(caught.value)
    for error, words in (
        *((ProgramError, "five arguments"), (FileNotFoundError, "no")),
        *((ProgramError, "Own: mine"), (ProgramError, "StopIteration")),
    ):
        with pytest.raises(error, match=words):
            program.function("f")()
    assert not program.out_of_memory


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "none"])
def test_what_is_no_exception_ends_the_tests(conversation, kind):
    program, _ = conversation(["raised", [kind, "BaseException", "object"], "0", []])
    with pytest.raises(ProgramGoneError, match=kind):
        program.function("f")()
    assert program.failure


def test_a_program_is_loaded_or_says_why_not(conversation):
    program, _ = conversation(["loaded", ["f", "g"]])
    assert program.load() == ""
    assert program.names == {"f", "g"}
    program, _ = conversation(["failed", ["SyntaxError"], "no"])
    assert program.load() == "SyntaxError: no"
    program, _ = conversation(["failed", [], ""])
    assert program.load() == "an exception"
    program, _ = conversation(["loaded", "f"])
    with pytest.raises(ProgramGoneError, match="something other than an answer"):
        program.load()


ITSELF = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize("value", [pytest, print, object(), iter([1]), ITSELF])
def test_what_is_no_value_is_not_sent_and_no_test_can_catch_that(conversation, value):
    program, questions = conversation()
    with pytest.raises(RefusedError, match=r"given to the program|cannot be sent"):
        program.function("f")(value)
    assert questions == []
