"""The tests' side of a program, with a thread of this process as the program."""

import socket
import threading

import pytest

from dph._processes.sandbox.remote import (
    ProgramError,
    ProgramGoneError,
    RefusedError,
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


def test_a_program_that_is_gone_stays_gone_whoever_catches_it(conversation):
    program, _ = conversation(["value", 1])
    assert program.function("f")() == 1
    for _ in range(2):
        with pytest.raises(ProgramGoneError):
            program.function("f")()
    assert program.failure == "the program ended"


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
