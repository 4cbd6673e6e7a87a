import json
import os
import sqlite3
from contextlib import closing

import pytest

from dph.records import Outcome, Verdict
from dph.tasks.verifiers import VERIFIERS, SQLVerifier, make_verifier, verifier_identity


class Old:
    """A user's class from before there were settings."""

    name = "old"
    version = "7"

    def grade(self, problems, responses):  # noqa: ARG002
        return [Verdict(outcome=Outcome.WRONG, reward=0.0) for _ in responses]

    def close(self):
        pass


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
    assert identity("sql", databases=tmp_path) != identity(
        "sql", databases=tmp_path, sql_rule="strict"
    )
    assert identity("math") != identity("math", math_phrases=["so"])
    assert identity("math") != identity("math", math_any_expression=False)
    with closing(SQLVerifier(sources=["bare"])) as one, closing(SQLVerifier()) as other:
        assert verifier_identity(one) != verifier_identity(other)


def test_a_function_names_its_file_and_its_time_limit(user_module):
    name = user_module("def f(r, p):\n    return True")
    found = identity(f"{name}:f", timeout=3)
    assert found["settings"] == {"timeout": 3.0, "source": f"{name}.py"}


def test_a_class_without_settings_has_none():
    assert verifier_identity(Old()) == {"name": "old", "version": "7", "settings": {}}


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
