import json

import pytest

from dph.errors import DataError
from dph.tasks.verifiers.code.task import CodeTask, parse_task

CALL = {"args": [1, 2], "returns": 3}
SCRIPT = {"stdin": "1 2", "stdout": "3"}


def test_tests_are_a_text_or_a_list_and_so_is_their_json():
    texts = ["assert f(1) == 1", "assert f(2) == 4"]
    assert parse_task({"tests": texts[0]}, "p").tests == (texts[0],)
    assert parse_task({"tests": texts}, "p").tests == tuple(texts)
    assert parse_task({"tests": json.dumps(texts)}, "p") == parse_task({"tests": texts}, "p")


def test_a_test_that_begins_with_a_bracket_and_is_no_json_is_python():
    text = "[check(n) for n in range(3)]"
    assert parse_task({"tests": text}, "p").tests == (text,)


def test_cases_are_scripts_or_calls_and_calls_need_the_name_of_a_function():
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
