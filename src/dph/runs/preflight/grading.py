"""The verifiers and style classifiers: that they can be made, and give a verdict on a row."""

from collections.abc import Sequence

from dph.errors import DphError
from dph.recipe import Recipe
from dph.records import Outcome, Problem, Verdict
from dph.runs.preflight.data import Findings, NamedProblems
from dph.runs.presample.stores.prompts import GOLDS
from dph.runs.verifier_maker import run_verifier, verifier_maker
from dph.tasks.environments import Environment, EnvironmentVerifier
from dph.tasks.styles import make_style
from dph.tasks.verifiers import unknown_verifier
from dph.tasks.verifiers.base import Verifier
from dph.tasks.verifiers.code.task import FIELDS as CODE_FIELDS

_ROWS = 8
"""Rows to try before saying that no gold answer can be graded."""


def check_styles(recipe: Recipe, findings: Findings) -> None:
    """Import the style classifiers."""
    data = recipe.data
    named = {f"data.sets.{name}.styles": chosen.styles for name, chosen in data.sets.items()}
    for key, name in {"data.styles": data.styles, **named}.items():
        try:
            make_style(name, data.modules)
        except DphError as error:
            findings.errors.append(f"{key}: {error}")


def check_verifiers(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Make each verifier once and let it grade a row of the first file that it is for."""
    data = recipe.data
    if recipe.environment.path is not None:
        check_environment(recipe, named, findings)
        return
    sets = {f"data.sets.{name}.verifier": chosen.verifier for name, chosen in data.sets.items()}
    checked: set[str] = set()
    for key, name in {"data.verifier": data.verifier, **sets}.items():
        if name is None or name in checked:
            continue
        checked.add(name)
        if unknown := unknown_verifier(name):
            findings.errors.append(f"{key}: {unknown}")
            continue
        own = next((n for n in named if n.verifier == name), None)
        if own is None:
            findings.unchecked.append(f"{key} on a row: there is none to read")
        if data.databases is not None and not data.databases.is_dir():
            own = None  # said already
        try:
            verifier = verifier_maker(recipe)(name)
        except DphError as error:
            findings.errors.append(f"{key}: {error}")
            continue
        if missing := getattr(verifier, "missing", ()):
            findings.notes.append(f"{key}: programs are not confined by {', '.join(missing)}")
        try:
            _grade(key, verifier, own.problems if own else (), findings)
        finally:
            verifier.close()


def check_environment(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Make the class once and let it begin a trajectory of the first problem of each file."""
    key = f"environment.path = {recipe.environment.path!r}"
    try:
        verifier = run_verifier(recipe)
    except DphError as error:
        findings.errors.append(f"{key}: {error}")
        return
    assert isinstance(verifier, EnvironmentVerifier)
    with verifier:
        for file in named:
            for problem in file.problems[:1]:
                if fault := _fault_of_beginning(verifier.environment, problem):
                    findings.errors.append(f"{key}: problem {problem.problem_id!r}: {fault}")


def _fault_of_beginning(environment: Environment, problem: Problem) -> str:
    try:
        with environment.begin(problem) as episode:
            return _line(episode.ending) if episode.ending is not None else ""
    except DphError as error:
        return str(error)


def _grade(key: str, verifier: Verifier, problems: Sequence[Problem], findings: Findings) -> None:
    bad: list[str] = []
    for problem in problems[:_ROWS]:
        try:
            [verdict] = verifier.grade([problem], [_some_response(problem)])
        except DphError as error:
            findings.errors.append(f"{key}: {error}")
            return
        what = f"problem {problem.problem_id!r}: {_line(verdict)}"
        if verdict.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT):
            findings.errors.append(f"{key}: {verifier.name!r} cannot grade {what}")
            return
        if verdict.outcome is not Outcome.BAD_GOLD:
            break
        bad.append(what)
    else:
        if bad:
            count = f"the first {len(bad)} problems" if len(bad) > 1 else "the only problem"
            findings.errors.append(f"{key}: {count} cannot be graded, for example {bad[0]}")
        return
    if bad:
        findings.notes.append(f"{len(bad)} of {len(bad) + 1} rows cannot be graded: {bad[0]}")


def _some_response(problem: Problem) -> str:
    if any(problem.answer.get(field) is not None for field in CODE_FIELDS):
        return "```python\npass\n```"
    found = (problem.answer.get(field) for field in GOLDS)  # a response that can be graded
    return next((str(gold) for gold in found if gold is not None), "0")


def _line(verdict: Verdict) -> str:
    reason = " ".join(verdict.reason.split())
    return f"{verdict.outcome.value}: {reason}" if reason else verdict.outcome.value
