import importlib

import pytest

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from dph.tasks.verifiers import VERIFIERS, Verifier, make_verifier


@pytest.mark.parametrize("name", list(VERIFIERS))
def test_each_verifier_of_the_table_is_made_by_its_name(name, tmp_path):
    verifier = make_verifier(name, databases=tmp_path, workers=2, timeout=3.0)
    assert isinstance(verifier, Verifier)
    assert verifier.name == name
    verifier.close()


def test_a_function_is_made_by_its_import_path(user_module):
    name = user_module("def f(r, p):\n    return True")
    path = f"{name}:f"
    verifier = make_verifier(path)
    assert verifier.name == path
    verifier.close()


def test_directories_may_be_named_by_text(tmp_path):
    (tmp_path / "named_by_text.py").write_text("def f(r, p):\n    return True")
    make_verifier("named_by_text:f", modules=[str(tmp_path)]).close()
    make_verifier("sql", databases=str(tmp_path)).close()


def test_a_function_itself_is_a_verifier_under_its_import_path(user_module):
    name = user_module("def f(r, p):\n    return r == 'a'")
    verifier = make_verifier(importlib.import_module(name).f)
    problem = Problem(problem_id="p", prompt="?")
    outcomes = [verdict.outcome for verdict in verifier.grade([problem] * 2, ["a", "b"])]
    assert (verifier.name, outcomes) == (f"{name}:f", [Outcome.CORRECT, Outcome.WRONG])
    verifier.close()


@pytest.mark.parametrize("given", [None, 5, ["sql"], lambda *_: True])
def test_what_is_neither_a_name_nor_a_function_of_a_module_is_refused(given):
    with pytest.raises(SettingsError, match=r"a verifier is one of sql, math.* got|is a lambda"):
        make_verifier(given)


@pytest.mark.parametrize("name", ["sqll", "", "a b:c", "module:"])
def test_an_unknown_name_is_refused_with_the_choices(name):
    with pytest.raises(SettingsError) as caught:
        make_verifier(name)
    for part in (
        repr(name),
        "sql, math, math_qwen, code, reasoning_gym, number, exact",
        "module:function",
    ):
        assert part in str(caught.value)
