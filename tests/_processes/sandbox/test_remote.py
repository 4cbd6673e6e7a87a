"""The tests' side of a program, with a thread of this process as the program."""

import socket
import threading

import pytest

from dph._processes.sandbox.remote import (
    ProgramError,
    ProgramGoneError,
    Remote,
    RemoteProgram,
    is_of_program,
)
from dph._processes.sandbox.values import Channel


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
    program, questions = conversation(["value", {"tuple": [1]}, None])
    assert program.named("f")((2,), x=3) == (1,)
    assert questions == [["call", {"name": "f"}, [{"tuple": [2]}], {"dict": [["x", 3]]}]]
    assert program.last == "f((2,)) gave (1,)"


def test_an_object_is_itself_equal_to_nothing_else_and_neither_true_nor_false(conversation):
    x = {"object": [7, "X", False]}
    program, questions = conversation(
        ["value", x, None],
        ["value", x, None],
        ["value", "X(1)", None],
        ["value", 5, None],
        ["value", 2, None],
    )
    one, same = program.named("f")(), program.named("f")()
    assert type(one) is Remote
    assert one is same
    assert (one == 5, one != 5, repr(one)) == (False, True, "X(1)")
    with pytest.raises(TypeError, match="<X> is not a value that a test can inspect"):
        bool(one)
    assert one.size == 5
    assert len(one) == 2
    assert questions[2:] == [["repr", x], ["get", x, "size"], ["size", x]]
    with pytest.raises(AttributeError):
        one.__wrapped__  # noqa: B018


def test_an_exception_of_python_comes_over_as_itself_and_any_other_as_a_program_error(conversation):
    program, _ = conversation(
        ["raised", ["Own", "KeyError", "LookupError", "Exception", "object"], "k"],
        ["raised", ["SystemExit", "BaseException", "object"], "0"],
        ["raised", ["UnicodeDecodeError", "ValueError"], "five arguments"],
    )
    with pytest.raises(KeyError, match="k"):
        program.named("f")()
    with pytest.raises(SystemExit) as ended:
        program.named("f")()
    assert is_of_program(ended.value)  # so that it does not end the tests without an error
    with pytest.raises(ProgramError, match="five arguments"):
        program.named("f")()
    assert not program.out_of_memory


def test_a_program_that_is_gone_stays_gone_whoever_catches_it(conversation):
    program, _ = conversation(["value", 1, None])
    assert program.named("f")() == 1
    for _ in range(2):
        with pytest.raises(ProgramGoneError):
            program.named("f")()
    assert program.failure == "the program ended"


def test_arguments_change_at_once_where_nothing_is_returned_else_at_the_next_statement(
    conversation,
):
    def changed(*content):
        return {"changed": [[1, list(content)]]}

    program, _ = conversation(["value", None, changed(9)], ["value", 5, changed(8)])
    given = [1, 2]
    program.named("f")(given)
    assert given == [9]
    program.named("f")(given)
    assert given == [9]
    program.settle()
    assert given == [8]


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


def test_what_is_no_value_for_a_program_is_not_sent(conversation):
    program, _ = conversation()
    with pytest.raises(TypeError, match="a value of type module cannot be given to the program"):
        program.named("f")(pytest)
    assert program.refused
