"""Every mistake of a recipe at once: ``dph recipe check`` opens everything but the weights."""

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dph._base.import_path import is_import_path, require_one_module
from dph.errors import DataError, DphError, SettingsError
from dph.model.hub import problems_file
from dph.recipe import Recipe
from dph.recipe.engines import require_engine_can
from dph.recipe.objective import TermSettings
from dph.recipe.places import hub_file
from dph.records import Outcome, Problem, Verdict
from dph.runs.answers import run_verifier, verifier_maker
from dph.runs.check_model import (
    CheckedModel,
    Findings,
    NamedProblems,
    check_memory,
    check_model,
    check_prompts,
)
from dph.runs.memory import Device
from dph.runs.presample.manifest import read_manifest
from dph.runs.prompts import file_prompts, recipe_shots, require_no_shown_test, require_unlabelled
from dph.tasks.agreement import GOLDS, contradictions
from dph.tasks.environments import EnvironmentVerifier
from dph.tasks.problems import load_problems, malformed_rows
from dph.tasks.styles import make_style
from dph.tasks.verifiers import unknown_verifier
from dph.tasks.verifiers.base import Verifier
from dph.tasks.verifiers.code.task import FIELDS as CODE_FIELDS


def check(recipe: Recipe, *, device: Device | None = None) -> Findings:
    """Open everything that the recipe names; files that do not exist yet are noted.

    Nothing is written, and no weights are read. ``device`` must have enough memory [default: the
    device of this machine].
    """
    findings = Findings()
    if recipe.sampling.engine == "vllm":
        findings.unchecked.append("the installation of vLLM and the device that it is built for")
    findings.value("", lambda: require_engine_can(recipe))
    model = check_model(recipe, findings)
    named = read_data(recipe, findings)
    prompts = [*named, *_unlabelled(recipe, named, findings)]
    _check_databases(recipe, prompts, findings)
    sets = recipe.data.sets.items()
    styles = {f"data.sets.{name}.styles": chosen.styles for name, chosen in sets}
    for key, style in {"data.styles": recipe.data.styles, **styles}.items():
        findings.value(key, partial(make_style, style, recipe.data.modules))
    _check_verifiers(recipe, named, findings)
    asked = _with_shots(recipe, model, prompts, findings)
    training = next((part for part in asked if part.key == "data.train"), None)
    if training is not None and recipe.labelled_per_step > len(training.problems):
        findings.errors.append(
            f"train.problems_per_step = {recipe.train.problems_per_step}, but data.train holds "
            f"only {len(training.problems)} problems"
        )
    check_prompts(recipe, model, asked, findings)
    check_memory(recipe, model, asked, findings, device=device)
    _check_objective(recipe, findings)
    return findings


_ROWS_LISTED = 5
"""Malformed rows of one file that are listed, each in a line."""


def read_data(recipe: Recipe, findings: Findings) -> list[NamedProblems]:
    """The problems of every file that can be read; the others go to the findings."""
    data, longest = recipe.data, recipe.sampling.max_tokens
    most = recipe.evaluate.max_tokens or longest
    files = {"data.train": (data.train, data.columns, data.verifier, longest)}
    for name, chosen in data.sets.items():
        own = chosen.verifier or data.verifier
        files[f"data.sets.{name}"] = (chosen.path, data.columns_of(name), own, most)
    known: dict[Any, Sequence[Problem]] = {}
    named = []
    for key, (file, columns, verifier, max_tokens) in files.items():
        path = _place(key, file, findings)
        if path is None:
            continue
        same = path, tuple(columns.items())
        try:
            known[same] = problems = known.get(same) or load_problems(path, columns=columns)
        except DataError as error:
            wrong = list(malformed_rows(path, columns=columns)) or [str(error)]
            if more := len(wrong[_ROWS_LISTED:]):
                wrong[_ROWS_LISTED:] = [f"{path}: {more} further rows cannot be used"]
            findings.errors.extend(f"{key}: {message}" for message in wrong)
            continue
        named.append(
            NamedProblems(key=key, problems=problems, verifier=verifier, max_tokens=max_tokens)
        )
    databases = data.databases
    if databases is not None and not databases.exists():
        findings.notes.append(f"data.databases does not exist: {databases}")
    elif databases is not None and not databases.is_dir():
        findings.errors.append(f"data.databases is not a directory: {databases}")
    return named


def _place(key: str, file: Path, findings: Findings) -> Path | None:
    """The path of a file in the cache or on disk; None if it is missing, which is noted."""
    try:
        path = problems_file(file)
    except DataError:
        findings.notes.append(
            f"{key} is not in the cache: a run would fetch {hub_file(file)} from the Hub"
        )
        return None
    if path.exists():
        return path
    findings.notes.append(f"{key} does not exist: {path}")
    return None


def _with_shots(
    recipe: Recipe, model: CheckedModel | None, named: Sequence[NamedProblems], findings: Findings
) -> list[NamedProblems]:
    """The problems with the examples before them; wrong examples go to the findings."""
    train = next((part.problems for part in named if part.key == "data.train"), None)
    if recipe.data.shots is None or train is None:
        return list(named)
    if model is not None and model.prompts is not None:
        data = recipe.data.decided(chat=model.prompts.chat)
        recipe = recipe.model_copy(update={"data": data})
    sets = [(part.key, part.problems) for part in named if part.key.startswith("data.sets.")]

    def shown() -> list[NamedProblems]:
        shots, left = recipe_shots(recipe, train)
        require_no_shown_test(shots, sets)
        assert shots is not None
        chat = recipe.data.chat is True
        return [
            replace(part, problems=[shots.before(each, chat=chat) for each in problems])
            for part in named
            for problems in [left if part.key == "data.train" else part.problems]
        ]

    return findings.value("", shown) or list(named)


_HEADER = b"SQLite format 3\x00"


def _check_databases(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Open every database of the problems that the sql verifier grades."""
    start = recipe.data.databases or Path()
    if not start.is_dir():
        return  # an error of the setting itself
    for part in named:
        if part.verifier != "sql":
            continue
        names = (problem.answer.get("database") for problem in part.problems)
        files = dict.fromkeys(start / name for name in names if isinstance(name, str) and name)
        if bad := [file for file in files if not _is_database(file)]:
            findings.errors.append(
                f"{part.key}: {len(bad)} of {len(files)} databases are missing or not SQLite "
                f"files, the first is {bad[0]}"
            )


def _is_database(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


_GOLDS = ("answer", "gold_sql", "gold")
"""Fields of a problem with its right answer."""
_ROWS = 8
"""Rows to try before reporting that no gold answer can be graded."""


def _check_verifiers(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Make each verifier once, and let it grade rows of its first file."""
    data = recipe.data
    if recipe.environment.path is not None:
        _check_environment(recipe, named, findings)
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
            findings.unchecked.append(f"{key} on a row: there is no row to read")
        if data.databases is not None and not data.databases.is_dir():
            own = None  # an error of the setting itself
        verifier = findings.value(key, partial(verifier_maker(recipe), name))
        if verifier is None:
            continue
        if missing := getattr(verifier, "missing", ()):
            findings.notes.append(f"{key}: programs are not confined by {', '.join(missing)}")
        try:
            _grade(key, verifier, own.problems if own else (), findings)
        finally:
            verifier.close()


def _check_environment(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Make the class once, and begin a trajectory of the first problem of each file."""
    key = f"environment.path = {recipe.environment.path!r}"
    verifier = findings.value(key, lambda: run_verifier(recipe))
    if verifier is None:
        return
    assert isinstance(verifier, EnvironmentVerifier)
    with verifier:
        for file in named:
            for problem in file.problems[:1]:
                place = f"{key}: problem {problem.problem_id!r}"
                try:
                    with verifier.environment.begin(problem) as episode:
                        if episode.ending is not None:
                            findings.errors.append(f"{place}: {_line(episode.ending)}")
                except DphError as error:
                    findings.errors.append(f"{place}: {error}")


def _grade(key: str, verifier: Verifier, problems: Sequence[Problem], findings: Findings) -> None:
    bad: list[str] = []
    for problem in problems[:_ROWS]:
        responses = [_some_response(problem), _WRONG] * _TRIES
        grade = partial(verifier.grade, [problem] * len(responses), responses)
        if (verdicts := findings.value(key, grade)) is None:
            return
        broken = [v for v in verdicts if v.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT)]
        verdict = broken[0] if broken else verdicts[0]
        what = f"problem {problem.problem_id!r}: {_line(verdict)}"
        right = "" if verdict is verdicts[0] else f"the answer {_WRONG!r} to "
        graded = zip(responses, verdicts, strict=True)
        said = contradictions((problem.problem_id, r, v.outcome) for r, v in graded)
        if broken or said:
            fault = f"cannot grade {right}{what}" if broken else f"gave {said}"
            findings.errors.append(f"{key}: {verifier.name!r} {fault}")
            return
        if verdict.outcome is not Outcome.BAD_GOLD:
            if bad:
                tried = len(bad) + 1
                findings.notes.append(f"{len(bad)} of {tried} rows cannot be graded: {bad[0]}")
            return
        bad.append(what)
    if bad:
        count = f"the first {len(bad)} problems" if len(bad) > 1 else "the only problem"
        findings.errors.append(f"{key}: {count} cannot be graded, for example {bad[0]}")


_TRIES = 3
_WRONG = "I do not know."
"""A verifier that lacks its last ``return`` grades only right answers, and fails on this one."""


def _some_response(problem: Problem) -> str:
    if any(problem.answer.get(field) is not None for field in CODE_FIELDS):
        return "```python\npass\n```"
    found = (problem.answer.get(field) for field in _GOLDS)
    return next((str(gold) for gold in found if gold is not None), "0")


def _line(verdict: Verdict) -> str:
    reason = " ".join(verdict.reason.split())
    return f"{verdict.outcome.value}: {reason}" if reason else verdict.outcome.value


def _unlabelled(
    recipe: Recipe, named: Sequence[NamedProblems], findings: Findings
) -> list[NamedProblems]:
    """The prompts without labels, if they can be read."""
    settings = recipe.self_consistency
    if not settings.active:
        return []
    key = "self_consistency"
    if settings.agreement is not None:
        agreement = partial(require_one_module, settings.agreement, recipe.data.modules)
        findings.value(f"{key}.agreement", agreement)
    elif recipe.data.verifier not in GOLDS:
        findings.errors.append(
            f"{key}: the verifier {recipe.data.verifier!r} cannot compare two answers: name a "
            f"function that can in {key}.agreement ('module:callable')"
        )
    if settings.file is not None and not settings.file.exists():
        findings.notes.append(f"{key}.file does not exist: {settings.file}")
        return []
    by_key = {part.key: part.problems for part in named}
    sets = {name: by_key.get(f"data.sets.{name}", ()) for name in recipe.data.sets}
    train = by_key.get("data.train", ())
    problems = findings.value("", partial(file_prompts, settings, train=train, sets=sets))
    if problems is None:
        return []
    findings.value("", partial(require_unlabelled, problems, per_step=settings.problems_per_step))
    verifier, most = recipe.data.verifier, recipe.sampling.max_tokens
    return [NamedProblems(key=f"{key}.file", problems=problems, verifier=verifier, max_tokens=most)]


def _check_objective(recipe: Recipe, findings: Findings) -> None:
    """Read the manifests of pools, and find the modules of user-defined terms."""
    for name, anchor in recipe.objective.active_anchors.items():
        if anchor.pool is not None:
            key = f"objective.anchors.{name}.samples"
            if not anchor.pool.exists():
                findings.notes.append(f"{key} does not exist: {anchor.pool}")
                continue
            manifest = findings.value(key, partial(read_manifest, anchor.pool))
            if manifest is not None and not manifest.counts.rehearsal:
                findings.errors.append(f"{key}: the pool {anchor.pool} has no rehearsal sample")
    terms: dict[str, TermSettings] = {
        "objective.advantage.kind": recipe.objective.advantage,
        "objective.surrogate.kind": recipe.objective.surrogate,
    }
    for name, penalty in recipe.objective.active_penalties.items():
        terms[f"objective.penalties.{name}.kind"] = penalty
    for name, anchor in recipe.objective.active_anchors.items():
        terms[f"objective.anchors.{name}.divergence"] = anchor
    own = [(key, term.chosen) for key, term in terms.items() if is_import_path(term.chosen)]
    for key, path in own:
        findings.value(key, partial(_require_module, path, recipe.data.modules))
    if own:
        findings.unchecked.append("the values that your terms compute: only a run imports them")


def _require_module(path: str, directories: Sequence[Path]) -> None:
    """Refuse an import path whose module does not exist, without importing it."""
    require_one_module(path, directories)
    top = path.partition(":")[0].partition(".")[0]
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # one without a spec, such as the program itself
        found = None
    if found is None:
        raise SettingsError(f"there is no module {top!r} for {path!r}")
