import importlib
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers import FunctionVerifier, verifier_identity

MODULE = """
    import os
    from decimal import Decimal
    from dph.records import Outcome, Verdict

    def grade(response, problem):
        print("graded", response)
        if response == "hang":
            while True:
                pass
        if response == "die":
            os._exit(1)
        if response == "invalid":
            return Verdict(outcome=Outcome.INVALID, reward=0.25, reason="a quarter")
        if response == "raise":
            raise ZeroDivisionError("by nought")
        if response == "recurse":
            return grade("recurse", problem)
        if response == "exit":
            raise SystemExit(3)
        if response == "prompt":
            return problem.prompt[0]["content"] == "hello"
        values = {"half": 0.5, "two": 2, "nan": float("nan"), "none": None, "text": "yes"}
        values["decimal"] = Decimal(3)
        if response in values:
            return values[response]
        return response == problem.answer["answer"]
"""

PROBLEM = Problem(
    problem_id="p 1",
    prompt=({"role": "user", "content": "hello"},),
    answer={"answer": "right", "extra": [1, None]},
)


@pytest.fixture
def path(user_module):
    return f"{user_module(MODULE)}:grade"


@pytest.fixture
def verifier(path):
    with FunctionVerifier(path, timeout=1.0) as verifier:
        yield verifier


def test_the_function_gets_response_and_problem_and_decides(verifier, path):
    responses = ["right", "wrong", "half", "invalid", "prompt"]
    assert verifier.grade([PROBLEM] * 5, responses) == [
        Verdict(outcome=Outcome.CORRECT, reward=1.0),
        Verdict(outcome=Outcome.WRONG, reward=0.0, reason="the function returned False"),
        Verdict(outcome=Outcome.WRONG, reward=0.5, reason="partial reward 0.5"),
        Verdict(outcome=Outcome.INVALID, reward=0.25, reason="a quarter"),
        Verdict(outcome=Outcome.CORRECT, reward=1.0),
    ]
    assert verifier.name == path


@pytest.mark.parametrize(("response", "outcome"), [("hang", "TIMED_OUT"), ("die", "CRASHED")])
def test_a_function_that_never_returns_costs_only_its_own_answer(verifier, response, outcome):
    verdicts = verifier.grade([PROBLEM] * 3, ["right", response, "right"])
    assert [verdict.outcome for verdict in verdicts] == ["CORRECT", outcome, "CORRECT"]
    assert verdicts[1].reason


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ("raise", "ZeroDivisionError: by nought"),
        ("exit", "SystemExit: 3"),
        ("two", "it returned 2; a number must lie in [0, 1]"),
        ("nan", "it returned nan; a number must lie in [0, 1]"),
        ("decimal", "it returned Decimal('3')"),
        ("none", "it returned None (NoneType); a bool"),
        ("text", "it returned 'yes' (str); a bool"),
    ],
)
def test_a_function_that_raises_or_returns_no_verdict_costs_one_answer_and_says_why(
    verifier, response, words
):
    verdicts = verifier.grade([PROBLEM] * 3, ["right", response, "wrong"])
    assert [verdict.outcome for verdict in verdicts] == ["CORRECT", "CRASHED", "WRONG"]
    assert words in verdicts[1].reason
    assert verdicts[1].reward == 0.0


def test_the_traceback_of_a_crash_begins_with_the_users_function_and_is_bounded(verifier, path):
    (raised, deep) = verifier.grade([PROBLEM] * 2, ["raise", "recurse"])
    lines = raised.reason.splitlines()
    assert lines[0] == lines[-1] == "ZeroDivisionError: by nought"
    assert f'{path.partition(":")[0]}.py", line' in lines[2]
    assert "verifiers/function.py" not in raised.reason
    assert deep.reason.startswith("RecursionError")
    assert len(deep.reason) < 2000
    assert 'return grade("recurse", problem)' in deep.reason


def test_answers_that_are_not_json_are_an_error(verifier):
    problem = Problem(problem_id="p", prompt="?", answer={"answer": b"raw"})
    with pytest.raises(VerifierError, match="JSON"):
        verifier.grade([problem], ["x"])


def test_the_version_changes_with_the_file_of_the_function(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    versions = []
    for answer in ("True", "False", "True"):
        source = f"def grade(response, problem):\n    return {answer}\n"
        (tmp_path / "my_changing_grader.py").write_text(source)
        with FunctionVerifier("my_changing_grader:grade") as verifier:
            versions.append(verifier.version)
    assert versions[0] == versions[2] != versions[1]
    assert all(version.startswith("1 ") for version in versions)


def grade_long(response, problem):
    return len(response) > len(problem.answer["answer"])


class Graders:
    @staticmethod
    def never(response, problem):
        return not isinstance(response, str) and problem is not None

    def bound(self, response, problem):
        return self.never(response, problem)


def test_a_function_may_be_given_as_it_is(user_module):
    module = importlib.import_module(user_module("def f(r, p):\n    return r == 'a'"))
    with FunctionVerifier(module.f) as verifier, FunctionVerifier(f"{module.__name__}:f") as named:
        assert verifier_identity(verifier) == verifier_identity(named)
        assert verifier.source == Path(module.__file__)
        assert outcomes(verifier.grade([PROBLEM] * 2, ["a", "b"])) == ["CORRECT", "WRONG"]
    with FunctionVerifier(grade_long, timeout=30) as verifier:
        assert verifier.name == f"{__name__}:grade_long"
        assert outcomes(verifier.grade([PROBLEM] * 2, ["a", "longer"])) == ["WRONG", "CORRECT"]
    with FunctionVerifier(Graders.never, timeout=30) as verifier:
        assert outcomes(verifier.grade([PROBLEM], ["a"])) == ["WRONG"]


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


def closure():
    def inner(response, problem):
        return response == problem

    return inner


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda response, problem: response == problem,
            "is a lambda, which other processes cannot",
        ),
        (closure(), "is a function inside another one"),
        (partial(grade_long), "has no import path"),
        (Graders(), "has no import path"),
        (Graders().bound, "can import only what a module defines under its own name"),
    ],
)
def test_a_function_that_no_other_process_can_import_is_refused(function, words):
    with pytest.raises(SettingsError, match=words):
        FunctionVerifier(function)


def run(script, cwd):
    return subprocess.run(
        [sys.executable, *script], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


SCRIPT = """
from dph.records import Problem
from dph.tasks.verifiers import FunctionVerifier

def grade(response, problem):
    return response == "a"

{guard}
    with FunctionVerifier(grade) as verifier:
        (verdict,) = verifier.grade([Problem(problem_id="p", prompt="?")], ["a"])
        print(verifier.name, verdict.outcome)
"""


def test_a_function_of_the_script_that_runs_is_found_by_the_scripts_name(tmp_path):
    (tmp_path / "my_script.py").write_text(SCRIPT.format(guard='if __name__ == "__main__":'))
    for script in (["my_script.py"], ["-m", "my_script"]):
        done = run(script, tmp_path)
        assert done.stdout == "my_script:grade CORRECT\n", done.stderr


def test_a_script_that_guards_nothing_and_the_prompt_are_refused(tmp_path):
    (tmp_path / "my_script.py").write_text(SCRIPT.format(guard="if True:"))
    done = run(["my_script.py"], tmp_path)
    assert done.returncode == 1
    assert "if __name__ == '__main__':" in done.stderr
    done = run(["-c", SCRIPT.format(guard="if True:")], tmp_path)
    assert done.returncode == 1
    assert "the prompt or a notebook, which other processes cannot import" in done.stderr
