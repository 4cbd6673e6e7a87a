import importlib
import inspect
import json
import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pkgutil import resolve_name

import pytest

from dph.errors import SettingsError
from dph.recipe import DataSettings
from dph.records import Outcome, Problem, Verdict
from dph.tasks.grading.rows import VerifierRowGrader
from dph.tasks.verifiers import VERIFIERS, Verifier, make_verifier, verifier_identity
from dph.tasks.verifiers.base import OneAtATime
from dph.tasks.verifiers.sql.verifier import SQLVerifier
from dph.tasks.verifiers.table import verifier_settings


@pytest.mark.parametrize("name", list(VERIFIERS))
def test_each_verifier_of_the_table_is_made_by_its_name(name, tmp_path):
    verifier = make_verifier(name, databases=tmp_path, workers=2, timeout=3.0)
    assert isinstance(verifier, Verifier)
    assert verifier.name == name
    verifier.close()


def test_directories_may_be_named_by_text(tmp_path):
    (tmp_path / "named_by_text.py").write_text("def f(r, p):\n    return True")
    make_verifier("named_by_text:f", modules=[str(tmp_path)]).close()
    make_verifier("sql", databases=str(tmp_path)).close()


def test_a_function_itself_is_a_verifier_under_its_import_path_and_names_its_file(user_module):
    name = user_module("def f(r, p):\n    return r == 'a'")
    verifier = make_verifier(importlib.import_module(name).f)
    problem = Problem(problem_id="p", prompt="?")
    outcomes = [verdict.outcome for verdict in verifier.grade([problem] * 2, ["a", "b"])]
    assert (verifier.name, outcomes) == (f"{name}:f", [Outcome.CORRECT, Outcome.WRONG])
    verifier.close()
    name = user_module("def f(r, p):\n    return True")
    found = identity(f"{name}:f", timeout=3)
    assert found["settings"] == {"timeout": 3.0, "source": f"{name}.py"}


@pytest.mark.parametrize("given", [None, 5, ["sql"], lambda *_: True])
def test_what_is_neither_a_name_nor_a_function_of_a_module_is_refused(given):
    with pytest.raises(SettingsError, match=r"a verifier is one of sql, math.* got|is a lambda"):
        make_verifier(given)


@pytest.mark.parametrize("name", ["sqll", "", "a b:c", "module:"])
def test_an_unknown_name_is_refused_with_the_choices(name):
    with pytest.raises(SettingsError) as caught:
        make_verifier(name)
    choices = "sql, math, math_qwen, code, reasoning_gym, number, exact"
    for part in (repr(name), choices, "module:function"):
        assert part in str(caught.value)


SHARED = {"databases", "workers", "timeout"}


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_row_says_the_settings_and_defaults_that_the_class_itself_has(name):
    row = VERIFIERS[name]
    made = resolve_name(row.path)
    signature = inspect.signature(made).parameters if "__init__" in vars(made) else {}
    said = {setting.argument: setting.default for setting in row.settings.values()}
    assert made.name == name
    assert said == {key: signature[key].default for key in said}
    assert set(row.takes) == SHARED & set(signature)
    assert row.compares == hasattr(made, "gold_of")


def test_every_setting_is_a_key_of_its_own_in_a_recipe():
    assert sum(len(row.settings) for row in VERIFIERS.values()) == len(verifier_settings())
    for key, setting in verifier_settings().items():
        field = DataSettings.model_fields[key]
        assert (field.default, field.description) == (setting.default, setting.meaning)


def test_a_setting_that_a_verifier_does_not_have_is_refused():
    with pytest.raises(SettingsError, match=r"no verifier has a setting 'gym'; there are sql_rule"):
        make_verifier("exact", gym=1.0)
    make_verifier("exact", gym_threshold=0.5).close()  # another's, as a recipe has all of them
    with pytest.raises(SettingsError, match="gym_threshold is not a setting of the verifier 'exa"):
        VerifierRowGrader("exact", gym_threshold=0.5)
    pytest.importorskip("reasoning_gym")
    with pytest.raises(SettingsError, match="must be above 0 and at most 1, got 2"):
        VerifierRowGrader("reasoning_gym", gym_threshold=2.0)


def identity(name, **settings):
    with closing(make_verifier(name, **settings)) as verifier:
        return verifier_identity(verifier)


@pytest.mark.parametrize("name", list(VERIFIERS))
def test_every_verifier_says_all_that_its_verdicts_depend_on_as_json(name, tmp_path):
    with closing(make_verifier(name, databases=tmp_path)) as verifier:
        found = verifier_identity(verifier)
        assert (found["name"], found["version"]) == (verifier.name, verifier.version)
    assert set(found) == {"name", "version", "settings"}
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("name", ["sql", "math", "math_qwen"])
def test_the_time_limit_is_part_of_the_identity_and_the_number_of_workers_is_not(name, tmp_path):
    usual = identity(name, databases=tmp_path)
    assert identity(name, databases=tmp_path, workers=3, timeout=5) == usual
    assert identity(name, databases=tmp_path, timeout=6.0) != usual


def test_the_rule_and_where_answers_are_looked_for_are_part_of_the_identity(tmp_path):
    strict = identity("sql", databases=tmp_path, sql_rule="strict")
    assert identity("sql", databases=tmp_path) != strict
    assert identity("math") != identity("math", math_phrases=["so"])
    assert identity("math") != identity("math", math_any_expression=False)
    with closing(SQLVerifier(sources=["bare"])) as one, closing(SQLVerifier()) as other:
        assert verifier_identity(one) != verifier_identity(other)


def test_another_content_of_the_databases_is_another_identity_and_another_place_is_not(
    singers, tmp_path
):
    before = identity("sql", databases=singers.parent)
    (singers.parent / "notes.txt").write_text("no database")
    os.utime(singers, (1, 1))
    moved = singers.parent.rename(tmp_path / "elsewhere")
    assert identity("sql", databases=moved) == before
    with closing(sqlite3.connect(moved / singers.name)) as connection:
        connection.execute("UPDATE singer SET age = age + 1 WHERE id = 1")
        connection.commit()
    assert identity("sql", databases=moved) != before


class Watched:
    name, version, settings = "watched", "3", {"rule": "strict"}

    def __init__(self):
        self.inside, self.most, self.closed = 0, 0, False
        self.lock = threading.Lock()

    def grade(self, problems, responses):
        assert len(problems) == len(responses)
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.01)
        with self.lock:
            self.inside -= 1
        return [Verdict(outcome=Outcome.WRONG, reward=0.0, reason=r) for r in responses]

    def close(self):
        self.closed = True


def test_threads_take_turns_and_it_has_the_identity_of_the_one_inside():
    watched = Watched()
    verifier = OneAtATime(watched)
    problem = Problem(problem_id="q", prompt="")
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: verifier.grade([problem], [str(i)]), range(16)))
    assert [verdicts[0].reason for verdicts in found] == [str(i) for i in range(16)]
    assert watched.most == 1
    assert isinstance(verifier, Verifier)
    assert (verifier.name, verifier.version) == ("watched", "3")
    assert verifier.settings == {"rule": "strict"}
    verifier.close()
    assert watched.closed
