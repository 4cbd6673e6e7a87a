"""Contents of a run directory, each part read when it is asked for. Loads no torch."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph.errors import DataError, SettingsError
from dph.model.hub import problems_file
from dph.recipe import ModelSettings, Recipe
from dph.recipe.places import is_model_id
from dph.recipe.recipe import recipe_of
from dph.recipe.section import read_table
from dph.records import Problem
from dph.runs.directory import BASE, PROBLEMS_FILE, RECIPE, RunDirectory, is_made, read_metrics
from dph.runs.evaluate.answers.read import first_dump, read_answers
from dph.runs.evaluate.evaluated_runs import require_evaluated
from dph.runs.evaluate.progress_file import (
    read_progress_file,
    rows_of_step,
    step_metrics_of,
    step_summary,
)
from dph.runs.evaluate.samples_file import (
    is_foreign,
    read_samples,
    read_token_details,
    samples_digest,
)
from dph.runs.evaluate.scores import read_evaluation, read_kept_problems
from dph.runs.presample.manifest import read_manifest
from dph.tasks.problems import load_problems, problem_of_columns

Tokens = Mapping[tuple[str, str], Mapping[int, Mapping[str, list[Any]]]]
"""Of answers that have them (``evaluate.token_details``): by set and problem, by sample index."""
SetAnswers = tuple[pa.Table, Mapping[tuple[str, str], Problem]]
_ANSWER = ["problem_id", "sample_index", "text", "finished", "outcome", "reward", "reason", "style"]


@dataclass(frozen=True)
class RunResults:
    """A run, or the evaluation of any other model; a samples file stands for its evaluation.

    ``unread_recipe`` says why its recipe is left out [empty: it is read]. ``beside`` are the
    answers that those of another tool are compared with.
    """

    path: Path
    unread_recipe: str = field(default="", compare=False)
    beside: Path | None = field(default=None, compare=False)

    @cached_property
    def is_foreign(self) -> bool:
        return is_foreign(self.path)

    @property
    def place(self) -> RunDirectory:
        return RunDirectory(self.path)

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe of the run, or of the run that the evaluation belongs to."""
        if self._home is None or self.unread_recipe:
            return None
        path = self._home / RECIPE
        table = read_table(path)
        try:
            return recipe_of(table, beside=path.resolve().parent)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from error

    def readable(self) -> "RunResults":
        """The same; where its recipe is not valid, without it."""
        try:
            self.recipe  # noqa: B018
        except SettingsError as error:
            return replace(self, unread_recipe=str(error))
        return self

    @cached_property
    def evaluation(self) -> Mapping[str, Any] | None:
        """``evaluation.json``; None where there is none."""
        file = self.place.evaluation
        return read_evaluation(file) if file.is_file() else None

    @property
    def is_evaluated(self) -> bool:
        return self.place.samples.is_file() or self.is_foreign

    @property
    def samples(self) -> Path:
        return require_evaluated(self.path)

    def answers(self, *, texts: bool = True) -> pa.Table:
        """The graded answers; ``texts`` False leaves out what takes most of their size."""
        return read_samples(self.samples, texts=texts)

    def tokens(self) -> Tokens:
        """Text, log-prob, entropy and log-ratio to the initial policy of each token, in nats."""
        found: dict[tuple[str, str], dict[int, Mapping[str, list[Any]]]] = {}
        tokens = self.place.tokens
        for row in read_token_details(tokens).to_pylist() if tokens.is_file() else ():
            of_problem = found.setdefault((row["set"], row["problem_id"]), {})
            of_problem[row["sample_index"]] = token_detail(row)
        return found

    @property
    def identity(self) -> str:
        """Equal for copies of one evaluation."""
        return samples_digest(self.place.samples) or str(self.path.resolve())

    def log(self) -> list[dict[str, Any]]:
        """The rows of ``metrics.jsonl``; none where nothing was trained here."""
        return read_metrics(self.place.metrics) if self.path.is_dir() else []

    def log_from_start(self) -> list[Mapping[str, Any]]:
        """The log; before it a row of step 0, where the initial policy was measured."""
        rows: list[Mapping[str, Any]] = [*self.log()]
        initial = rows_of_step(self.progress(), 0)
        if self.recipe is None or not rows or not initial.num_rows:
            return rows
        ks, seed = self.recipe.evaluate.during.k, self.recipe.evaluate.seed
        summary = step_summary(initial, ks=ks, seed=self.recipe.seed if seed is None else seed)
        return [{"step": 0, **step_metrics_of(summary)}, *rows]

    def progress(self) -> pa.Table:
        """The rows of ``progress.parquet``; none where nothing was measured during training."""
        return read_progress_file(self.place.progress)

    def problems(self, set_name: str) -> Mapping[str, Problem]:
        """The problems of a set, by id: those of the recipe, or of another tool's files."""
        if self.is_foreign:
            kept = self.kept_problems()
            return {problem_id: of for (name, problem_id), of in kept.items() if name == set_name}
        if self.recipe is None:
            raise DataError(f"there is no {RECIPE} in or above {self.path}")
        if set_name not in self.recipe.data.sets:
            raise DataError(f"the recipe of {self.path} names no set {set_name!r}")
        data = self.recipe.data
        return _by_id(data.sets[set_name].path, data.columns_of(set_name).items())

    def kept_problems(self) -> Mapping[tuple[str, str], Problem]:
        """The problems next to its answers, or among them, by set and id."""
        if self.is_foreign:
            return read_answers(self.path).problems
        return read_kept_problems(self.place.problems)

    def pool_answers(self) -> SetAnswers:
        """The answers of its pool, or of the pool in this directory, as those of a set ``pool``.

        The problems are those to explore and, where the recipe's file is here, all of them.
        """
        recipe = self.recipe
        place = self.place.pool(recipe) if recipe else self.path / "pool"
        if is_made(self.path):
            place = self.path
        read_manifest(place)
        rows = pq.read_table(place / "exploration.parquet").to_pylist()
        problems = list(map(problem_of_columns, rows))
        if recipe is not None:
            with suppress(DataError):  # its file has moved: answers are shown without it
                path = problems_file(recipe.data.train)
                problems = load_problems(path, columns=recipe.data.columns)
        table = pq.read_table(RunDirectory(place).samples, columns=[*_ANSWER, "token_ids"])
        table = table.append_column("tokens", pc.list_value_length(table["token_ids"]))
        return _as_set(table.drop_columns("token_ids"), "pool", problems)

    def step_answers(self, step: int) -> SetAnswers:
        """The answers that a step of training drew, as those of a set ``step <N>``."""
        kept = self.place.kept_steps()
        if step not in kept:
            steps = ", ".join(map(str, kept)) or "none (train.keep_samples)"
            raise DataError(f"{self.path}: no answers of step {step} are kept; there are: {steps}")
        table = pq.read_table(kept[step], columns=[*_ANSWER, "tokens", "prompt", "answer"])
        return _as_set(table, f"step {step}", map(problem_of_columns, table.to_pylist()))

    # The initial policy. A run has its evaluation in ``base/``; runs of a quickstart, a cookbook or
    # a study share the one next to them; an evaluation inside a run has that of the run.

    @cached_property
    def initial(self) -> "InitialEvaluation":
        """That of the initial policy: of the recipe's model; of any model without a recipe."""
        if self.is_foreign:
            first = self.beside or first_dump(self.path)
            if first is None:
                why = f"{self.path}: name the base model's answers first"
                return InitialEvaluation(why_none=why)
            return InitialEvaluation(results=None if first == self.path else RunResults(first))
        recipe, others = self.recipe, []
        for found in map(RunResults, self.base_places):
            if found.path.resolve() == self.path.resolve():
                return InitialEvaluation(why_none=f"{self.path} is an initial policy's evaluation")
            if found.evaluation is None:
                continue
            model = str(found.evaluation["model"])
            if recipe is None or is_model(model, recipe.model):
                return InitialEvaluation(results=found)
            others.append(f"{found.path} belongs to {model}")
        wanted = "" if recipe is None else f" {recipe.model.path}"
        places = " or ".join(map(str, self.base_places))
        why = f"{self.path}: there is no evaluation of the initial policy{wanted} in {places}"
        return InitialEvaluation(why_none="; ".join([why, *others]))

    @property
    def base_places(self) -> list[Path]:
        """Places of the evaluation of its initial policy: in a run, and next to it.

        They are relative to the working directory where the run was.
        """
        if self.is_foreign:
            return [one for one in (self.beside, first_dump(self.path)) if one is not None]
        home = (self._home or self.path).absolute()
        if self._home is None and RunDirectory(home.parent.parent).models == home.parent:
            home = home.parent.parent
        places, here = [home / BASE, home.parent / BASE], Path.cwd()
        if self.path.is_absolute():
            return places
        return [one.relative_to(here) if here in one.parents else one for one in places]

    @cached_property
    def _compared(self) -> "InitialEvaluation":
        """The initial policy, where the answers of both are there to be compared."""
        if not self.is_evaluated:
            return InitialEvaluation(why_none=f"{self.path}: not evaluated")
        base = self.initial.results
        if base is not None and not base.is_evaluated:
            why = f"{self.path}: there is no {base.place.samples} to compare it with"
            return InitialEvaluation(why_none=why)
        return self.initial

    @property
    def base(self) -> "RunResults | None":
        """The evaluation that it is compared with; None if ``why_alone`` says why."""
        return self._compared.results

    @property
    def why_alone(self) -> str | None:
        return self._compared.why_none or None

    def baseline(self, against: Path | None = None) -> "RunResults":
        """The evaluation ``against``, a directory or a samples file; None: the initial policy's."""
        samples = self.samples
        if against is not None:
            other = RunResults(against)
        elif self.initial.results is not None:
            other = self.initial.results
        else:
            raise DataError(f"{self.initial.why_none}; --against names another to compare with")
        if other.samples.resolve() == samples.resolve():
            raise DataError(f"{self.path} is compared with itself: both are {samples}")
        return other

    @cached_property
    def _home(self) -> Path | None:
        """The directory with the recipe of the run that an evaluation belongs to.

        A directory with an initial policy is a run; one of TRL has no recipe.
        """
        if self.is_foreign:
            return None
        # Two levels up from an evaluation in models/<name>/ or interpolated/<x>/.
        parents = () if (self.path / BASE).is_dir() else self.path.absolute().parents[:2]
        above = [self.path, *parents]
        return next((directory for directory in above if (directory / RECIPE).is_file()), None)


def _as_set(table: pa.Table, name: str, problems: Iterable[Problem]) -> SetAnswers:
    """Answers that no evaluation drew, as one set, with the problems that are known."""
    sets = pa.array([name] * table.num_rows, pa.string())
    by_key = {(name, problem.problem_id): problem for problem in problems}
    return table.append_column("set", sets), by_key


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialEvaluation:
    """The evaluation of an initial policy; None where there is none, and why."""

    results: RunResults | None = None
    why_none: str = ""

    def required(self) -> RunResults:
        if self.results is None:
            raise DataError(self.why_none)
        return self.results


def is_model(recorded: str, model: ModelSettings) -> bool:
    """True if a model that an evaluation names is that of a recipe.

    A relative path began at a directory that is no longer known, so it must be the end of the
    recipe's path. A model of the Hub is in a cache, under its name and commit.
    """
    path, wanted = Path(recorded), Path(model.path)
    if path.resolve() == wanted.resolve():
        return True
    if path.is_absolute():
        cached = (f"models--{model.path.replace('/', '--')}", "snapshots")
        return (
            is_model_id(model.path)
            and path.parts[-3:-1] == cached
            and model.revision in (None, path.name)
        )
    said = [part for part in path.parts if part != ".."]
    return bool(said) and list(wanted.parts[-len(said) :]) == said


def token_detail(row: Mapping[str, Any]) -> Mapping[str, list[Any]]:
    """A row of ``tokens.parquet`` as pages show it; None: a token that the policy did not write."""
    pairs = zip(row["logprobs"], row["ref_logprobs"], strict=True)
    numbers = {
        "logprob": row["logprobs"],
        "entropy": row["entropy"],
        "ratio": [None if mine is None else mine - theirs for mine, theirs in pairs],
    }
    rounded = {
        name: [None if value is None else round(value, 3) for value in values]
        for name, values in numbers.items()
    }
    return {"pieces": row["pieces"], **rounded}


# The problems of the sets that runs were evaluated on: prompts and gold answers.

Problems = Mapping[str, Mapping[str, Problem]]
"""By set and id."""
_OneSet = tuple[Path, Mapping[str, Problem]]
"""The file that problems come from, and the problems by id."""


def read_set_problems(runs: Mapping[RunResults, Recipe | None]) -> tuple[Problems, list[str]]:
    """The problems of every set, and notes on what is missing.

    They are those next to a run's answers; if there are none, those that its recipe names.
    """
    sets: dict[str, _OneSet] = {}
    notes: dict[Path, str] = {}
    load = cache(_by_id)
    for run, recipe in runs.items():
        for name, found in _of_run(run, recipe, load, notes).items():
            first = sets.setdefault(name, found)
            if run.is_foreign:
                sets[name] = first[0], _merged(name, first, found, notes)
            elif first[1] != found[1]:
                (path, ours), (other_path, others) = first, found
                differing = next(i for i in (*ours, *others) if ours.get(i) != others.get(i))
                raise DataError(
                    f"the runs have other problems in their sets {name!r}: {path} and {other_path} "
                    f"differ, for example in {differing!r}; make a report of each"
                )
    return {name: problems for name, (_, problems) in sets.items()}, list(notes.values())


def _of_run(
    run: RunResults,
    recipe: Recipe | None,
    load: Callable[[Path, tuple[tuple[str, str], ...]], Mapping[str, Problem]],
    notes: dict[Path, str],
) -> dict[str, _OneSet]:
    kept: dict[str, dict[str, Problem]] = {}
    for (name, problem_id), problem in run.kept_problems().items():
        kept.setdefault(name, {})[problem_id] = problem
    place = run.path if run.is_foreign else run.path / PROBLEMS_FILE
    found: dict[str, _OneSet] = {name: (place, problems) for name, problems in kept.items()}
    if recipe is None:
        return found
    for name, chosen in recipe.data.sets.items():
        path = chosen.path.resolve()
        if name in kept:
            continue
        if not path.is_file():
            notes[path] = f"{path}, the problems of {name}, is missing: no prompts, no gold"
            continue
        columns = recipe.data.columns_of(name)
        found[name] = path, load(path, tuple(sorted(columns.items())))
    return found


def _merged(
    name: str, first: _OneSet, second: _OneSet, notes: dict[Path, str]
) -> Mapping[str, Problem]:
    """Problems of other tools' answers, whose prompts may have another form in another file."""
    (path, problems), (other_path, others) = first, second
    both = [(one, others[i]) for i, one in problems.items() if i in others]
    golds = [a.problem_id for a, b in both if a.answer and b.answer and a.answer != b.answer]
    if golds:
        raise DataError(
            f"{len(golds)} of {len(both)} problems of {name!r} have one gold in {path} and "
            f"another in {other_path}, for example {golds[0]!r}: one id, two problems"
        )
    if prompts := sum(bool(a.prompt and b.prompt and a.prompt != b.prompt) for a, b in both):
        notes[other_path] = (
            f"{prompts} of {len(both)} problems of {name!r} have another prompt in {other_path} "
            f"than in {path}, whose is shown"
        )
    return {**others, **problems}


def _by_id(path: Path, columns: Iterable[tuple[str, str]]) -> dict[str, Problem]:
    return {one.problem_id: one for one in load_problems(path, columns=dict(columns))}
