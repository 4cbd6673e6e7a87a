import pytest

from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.verifiers import FunctionVerifier

MODULE = """
    import asyncio, os, time
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
        if response == "prompt":
            return problem.prompt[0]["content"] == "hello"
        values = {"half": 0.5, "two": 2, "nan": float("nan"), "none": None, "text": "yes"}
        if response in values:
            return values[response]
        return response == problem.answer["answer"]

    not_a_function = 3
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
        Verdict(outcome=Outcome.WRONG, reward=0.0),
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
        ("two", "2.0; a number has to lie in"),
        ("nan", "nan"),
        ("none", "None"),
        ("text", "'yes'"),
    ],
)
def test_a_broken_function_is_an_error_that_names_it_and_the_problem(
    verifier, path, response, words
):
    with pytest.raises(VerifierError) as caught:
        verifier.grade([PROBLEM] * 2, ["right", response])
    for part in (path, "'p 1'", words):
        assert part in str(caught.value)


def test_answers_that_are_not_json_are_an_error(verifier):
    problem = Problem(problem_id="p", prompt="?", answer={"answer": b"raw"})
    with pytest.raises(VerifierError, match="JSON"):
        verifier.grade([problem], ["x"])


@pytest.mark.parametrize(
    ("attribute", "words"),
    [("missing", "has no 'missing'"), ("not_a_function", "is not callable, it is a int")],
)
def test_a_path_to_no_function_is_a_setting_to_correct(path, attribute, words):
    with pytest.raises(SettingsError, match=words):
        FunctionVerifier(path.replace("grade", attribute))


def test_a_module_that_is_not_there_or_broken_is_a_setting_to_correct(user_module):
    with pytest.raises(SettingsError, match=r"'no_such_module:f'.*ModuleNotFoundError"):
        FunctionVerifier("no_such_module:f")
    name = user_module("raise RuntimeError('no licence')")
    with pytest.raises(SettingsError, match="RuntimeError: no licence"):
        FunctionVerifier(f"{name}:f")


def test_a_module_in_the_current_directory_is_found(tmp_path, monkeypatch):
    (tmp_path / "task_beside_the_recipe.py").write_text("def f(r, p):\n    return r == 'a'\n")
    monkeypatch.chdir(tmp_path)
    with FunctionVerifier("task_beside_the_recipe:f") as verifier:
        assert verifier.grade([PROBLEM], ["a"])[0].outcome is Outcome.CORRECT


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
