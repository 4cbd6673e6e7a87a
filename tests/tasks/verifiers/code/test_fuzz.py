"""Twenty thousand answers of a program, and as many responses: values or failures."""

import random
import re
import socket
import struct
from types import GeneratorType

from dph._processes.sandbox.remote import ProgramGoneError, RemoteProgram
from dph._processes.sandbox.values import Channel
from dph.tasks.verifiers.code.task import extract_program

_WORDS = r"""
"value" "raised" "function" "loaded" "failed" "verdict" "CORRECT" null true false 0 1 -1 5 1e999
NaN [] {} "" "x" "\ud800" {"int":"0x5"} {"int":"-"} {"tuple":[1]} {"set":[[1]]} {"dict":[[1,2]]}
{"dict":[[[],2]]} {"object":[1,"X",true]} {"object":[]} {"object":[[],1,2]} {"iterator":0}
{"iterator":[]} {"code":"x"} {"bytes":"zz"} {"Decimal":"1e999999"} {"range":[0,1,0]}
{"datetime":"2020"} {"array":["i",["x"]]} ["Exception"] ["MemoryError","Exception"]
["SystemExit","BaseException"] ["E"] [[]] {"a":1,"b":2} {"Fraction":["0x1","0x0"]}
{"complex":[1]} {"frozenset":null} {"deque":[[]]} {"timedelta":[1,1,1]}
"""
WORDS = _WORDS.split()
PLAIN = ["builtins", "collections", "decimal", "fractions", "datetime", "array"]
PIECES = ["```", "~~~", "python\n", "\n", "def f(): pass", "    return 1", "<answer>", "</answer>"]
PIECES += ["</think>", "`" * 500, " ", "\t", "\0", "\ud800", "\u2028", "x = 1", "class f", "é"]


def message(draw):
    """A frame that may or may not be a message."""
    text = ",".join(draw.choices(WORDS, k=draw.randint(0, 4)))
    data = (f"[{text}]" if draw.random() < 0.95 else text).encode("utf-8", "surrogatepass")
    size = len(data) if draw.random() < 0.95 else draw.choice([0, 3, 1 << 40])
    return struct.pack("<Q", size) + data


def types_in(value):
    """All types in a value."""
    yield type(value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from types_in(each)


def test_generated_answers_of_a_program_are_plain_values_or_failures():
    draw, kinds, raised = random.Random(0), set(), set()
    for _ in range(20_000):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(b"".join(message(draw) for _ in range(3)))
            theirs.shutdown(socket.SHUT_WR)
            program = RemoteProgram(Channel(ours.fileno()))
            try:
                value = program.function("f")(1, [2])
                value = list(value) if isinstance(value, GeneratorType) else value
            except ProgramGoneError:
                assert program.failure
                kinds.add("gone")
            except Exception as error:  # noqa: BLE001 - which is what tests would see
                raised.add(type(error).__module__)
            else:
                found = set(types_in(value))
                assert all(t.__module__ in PLAIN for t in found), found
                kinds.add("value")
    assert kinds == {"gone", "value"}
    assert raised == {"builtins", "dph._processes.sandbox.remote"}


def bare(text):
    return re.sub(r"^[ \t>]+", "", text, flags=re.MULTILINE)


def test_generated_texts_are_searched_without_an_error():
    draw = random.Random(1)
    for _ in range(20_000):
        text = "".join(draw.choices(PIECES, k=draw.randint(0, 30)))
        found = extract_program(text, entry_point="f", prefix=draw.random() < 0.5)
        # A fence may be indented or quoted; as much is taken off the lines of its block.
        assert found is None or bare(found) in bare(text)
