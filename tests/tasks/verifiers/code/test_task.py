import json
import os
import random
import re
import socket
import struct
from types import GeneratorType

import pytest

from dph._processes.sandbox.values import Channel, ProgramGoneError, RemoteProgram
from dph.errors import DataError
from dph.tasks.verifiers.code.task import CodeTask, extract_program, parse_task

CALL = {"args": [1, 2], "returns": 3}
SCRIPT = {"stdin": "1 2", "stdout": "3"}


def test_tests_and_cases_are_texts_lists_or_their_json():
    texts = ["assert f(1) == 1", "assert f(2) == 4"]
    assert parse_task({"tests": texts[0]}, "p").tests == (texts[0],)
    assert parse_task({"tests": texts}, "p").tests == tuple(texts)
    assert parse_task({"tests": json.dumps(texts)}, "p") == parse_task({"tests": texts}, "p")
    text = "[check(n) for n in range(3)]"
    assert parse_task({"tests": text}, "p").tests == (text,)
    assert parse_task({"cases": [SCRIPT]}, "p") == CodeTask(scripts=(SCRIPT,))
    found = parse_task({"cases": json.dumps([CALL]), "entry_point": "S.f"}, "p")
    assert found == CodeTask(calls=({"kwargs": {}, **CALL},), entry_point="S.f")


def test_another_program_stands_for_all_tests_on_the_inputs_or_on_those_of_cases():
    answer = {"tests": "assert f()", "same_as": "x", "inputs": ["1", "2"]}
    assert parse_task(answer, "p") == CodeTask(
        scripts=({"stdin": "1"}, {"stdin": "2"}), same_as="x"
    )
    answer = {"cases": [CALL], "entry_point": "f", "same_as": "x"}
    found = parse_task(answer, "p")
    assert found.calls == ({"kwargs": {}, "args": [1, 2]},)
    assert parse_task({"inputs": "[[1]]", "entry_point": "f", "same_as": "x"}, "p").calls == (
        {"kwargs": {}, "args": [1]},
    )
    with pytest.raises(
        DataError, match="needs 'inputs' or 'cases' to compare programs on, and has neither"
    ):
        parse_task({"tests": "assert f()", "same_as": "x"}, "p")
    with pytest.raises(DataError, match="'inputs' is a list of texts, or of lists of arguments"):
        parse_task({"inputs": [1], "same_as": "x"}, "p")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "needs 'tests' or 'cases'"),
        ({"tests": "  "}, "needs 'tests' or 'cases'"),
        ({"tests": 3}, "'tests' is Python, a text or a list of texts, got 3"),
        ({"tests": ["a", 3]}, "'tests' is Python"),
        ({"cases": "no json"}, "'cases' is a list of"),
        ({"cases": [{"stdin": "1"}]}, "'cases' is a list of"),
        ({"cases": [{"stdin": 1, "stdout": "1"}]}, "both texts"),
        ({"cases": [{"args": 1, "returns": 1}]}, "'cases' is a list of"),
        ({"cases": [CALL]}, "need 'entry_point', a function's name or Class.method, got ''"),
        ({"cases": [CALL], "entry_point": "a.b.c"}, "got 'a.b.c'"),
        ({"cases": [CALL], "entry_point": "f()"}, "got 'f()'"),
        ({"cases": [SCRIPT], "tests": "assert f()"}, "cannot be mixed"),
        ({"cases": [SCRIPT, CALL], "entry_point": "f"}, "cannot be mixed"),
        ({"tests": "x", "setup": ["import math"]}, "'setup' is a text, got ['import math']"),
    ],
)
def test_what_is_no_task_is_refused_by_name(answer, message):
    with pytest.raises(DataError) as error:
        parse_task(answer, "problem 'p'")
    assert message in str(error.value)
    assert "problem 'p'" in str(error.value)


A, B = "def a():\n    return 1\n", "def b():\n    return 2\n"
ESCAPED = "print('it\\'s </think>', \"<answer>\")\n"
SPLIT = "def a(text):\n    return text.split('</think>')[-1].partition(\"<answer>\")[2]\n"


@pytest.mark.parametrize(
    ("response", "program"),
    [
        (f"so\n```python\n{A}```\nDone.", A),
        (f"```py\n{A}```\nor\n```python\n{B}```", B),
        (f"```\n{A}```\n```bash\nls\n```", A),
        (f"```python\n{A}```\n```\nsome output\n```", A),
        (f"~~~python3\n{A}~~~", A),
        (f"```python\n{A}", A),
        (f"````python\n```\n{A}````", f"```\n{A}"),
        (f"<think>```python\n{B}```</think>```text\n```\n```python\n{A}```", A),
        (f"<answer>\n```python\n{A}```\n</answer> ```python\n{B}```", A),
        (f"```python\n{SPLIT}```", SPLIT),
        (f"<think>\n</think>\n```python\n{ESCAPED}```", ESCAPED),
        (f"<think>It's so.</think>That's\n```python\n{SPLIT}```", SPLIT),
        (f"<answer>\n```python\n{SPLIT}```\n</answer> ```python\n{B}```", SPLIT),
        (f"<think>\n```python\n{SPLIT}\nNo.</think>\n```python\n{A}```", A),
        (f"It's<think>```python\n{B}```\nIt's</think>Here's\n```python\n{A}```", A),
        ("print(int(input()) + 1)\n", "print(int(input()) + 1)\n"),
        ("for _ in range(2):\n    print(input())\n", "for _ in range(2):\n    print(input())\n"),
        ("while True: print(1)", "while True: print(1)"),
        ("I cannot do that.", None),
        ("I cannot do that for a reason: none", None),
        ("```python\n\n```", None),
        ("```bash\nls\n```", None),
        ("", None),
    ],
)
def test_the_program_of_a_response(response, program):
    assert extract_program(response) == program


def test_the_block_that_defines_the_entry_point_comes_before_later_ones():
    response = f"```python\n{A}```\nTest it:\n```python\nfrom x import a\nprint(a())\n```"
    assert extract_program(response, entry_point="a") == A
    assert extract_program(response) == "from x import a\nprint(a())\n"
    assert extract_program("```\nb = len\n```", entry_point="b") == "b = len\n"
    assert extract_program("    return 1\n", prefix=True) == "    return 1\n"
    assert extract_program("    return 1\n") is None


def fenced(text, indentation, before="1. So:\n\n", mark="python"):
    lines = [f"```{mark}", *text.splitlines(), "```"]
    return before + "".join(f"{indentation}{line}\n" if line else "\n" for line in lines)


DOCUMENTED = (
    'def a():\n    """One.\n\n    ```python\n    a()\n    ```\n\n    1. first\n\n'
    '       ```\n       1\n       ```\n    """\n    return 1\n'
)


@pytest.mark.parametrize(
    "response",
    [
        fenced(A, "   "),
        fenced(A, "    "),
        fenced(A, "\t"),
        fenced(A, "  ", before="* So:\n"),
        fenced(A, "        ", before="- So:\n  - that\n\n"),
        fenced(A, "    ", before="10) So\nit is:\n\n"),
        fenced(A, "    ", before=""),
        fenced(A, "    ", before="First.\n\nSo:\n\n"),
        fenced(A, "> ", before="> So:\n>\n"),
        fenced(A, ">    ", before="> 1. So:\n>\n"),
        fenced(A, "    ") + "2. Try it:\n\n```python\nprint(a())\n```\n",
        fenced(A, "    ").rpartition("    ```")[0],
        fenced(A, "    ").rpartition("    ```")[0] + "```\nThat is all: a.",
        f"- ```python\n  {A.replace(chr(10), chr(10) + '  ').rstrip()}\n  ```\n",
        f"```python\n{A}  ```\nand\n```\n1\n```",
        *(
            f"```{mark}\n{A}```\n```\n1\n```"
            for mark in ("Python3", "{python}", "{.py .numbered}", 'python title="a.py"')
        ),
        *(f"~~~ {mark}\n{A}~~~\n~~~\n1\n~~~" for mark in ("python:a.py", "python3.11", "PY")),
        f"```python\n\ufeff{A}```",
        f"\ufeff```python\n{A}```",
        f"\ufeff{A}",
    ],
)
def test_fences_may_be_indented_quoted_and_marked_in_many_ways(response):
    # What stands before the program is taken off each line, by columns.
    for entry_point in ("a", ""):
        if entry_point or "print(a())" not in response:
            assert extract_program(response, entry_point=entry_point).removeprefix("\ufeff") == A


@pytest.mark.parametrize("indentation", [None, "", "  ", "   ", "    ", "\t"])
def test_a_fence_inside_a_program_neither_opens_nor_closes_a_block(indentation):
    response = DOCUMENTED if indentation is None else fenced(DOCUMENTED, indentation)
    assert extract_program(response, entry_point="a") == DOCUMENTED


@pytest.mark.parametrize(
    ("text", "defines"),
    [
        ("a: Callable = lambda: 1\n", True),
        ("a: Callable[\n    [int], int\n] = len\n", True),
        ("a   = len\n", True),
        ("async  def a(): pass\n", True),
        ("@cache\ndef a(): pass\n", True),
        *(("\ufeffdef a(): pass\n", True), ("a == 1\n", False), ("a: nothing\nb = 1\n", False)),
        *(("ab: int = 1\n", False), ("from x import a\n", False), ("def b():\n    a = 1\n", False)),
    ],
)
def test_an_entry_point_is_defined_by_statements_that_bind_it(text, defines):
    found = extract_program(f"```python\n{text}```\nor\n```python\nb = 2\n```", entry_point="a")
    assert found == (text.removeprefix("\ufeff") if defines else "b = 2\n")


def test_hostile_and_generated_texts_are_searched_once_and_without_an_error():
    for text in (
        *("`" * 200_000, "```python\n" * 50_000, "~~~ \n" * 60_000, "<answer>" * 50_000),
        *("```\n" + "'</think>" * 20_000, "'<answer>'" * 20_000),
        *("    ```\n" * 30_000, "> " * 100_000),
        "1. a\n\n    ```\n    b\n    ```\n" * 9_000,
        "```\na:" + "\n b" * 80_000 + "```",
    ):
        extract_program(text)
    draw = random.Random(1)
    for _ in range(GENERATED):
        text = "".join(draw.choices(PIECES, k=draw.randint(0, 30)))
        found = extract_program(text, entry_point="f", prefix=draw.random() < 0.5)
        # A fence may be indented or quoted; as much is taken off the lines of its block.
        assert found is None or bare(found) in bare(text)


GENERATED = 20_000 if os.environ.get("DPH_FUZZ") == "full" else 4_000
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
    assert raised == {"builtins", "dph._processes.sandbox.values"}


def bare(text):
    return re.sub(r"^[ \t>]+", "", text, flags=re.MULTILINE)
