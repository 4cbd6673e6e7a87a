"""The task of a recipe: the problems of its sets, its examples, and its verifier; read once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dph._base.randomness import generator
from dph.errors import DataError, SettingsError
from dph.model.hub import problems_file
from dph.recipe import DataSettings, Recipe
from dph.recipe.schema import CODE, SQL
from dph.records import Problem
from dph.runs.unlabelled_prompts import same_prompts
from dph.tasks.code_environment import code_environment
from dph.tasks.environments import Environment, EnvironmentVerifier
from dph.tasks.environments.tasksets import PREFIX
from dph.tasks.problems import load_problems
from dph.tasks.sql.environment import sql_environment
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.base import Verifier

TEMPLATE = "{prompt}\n{answer}\n\n"


@dataclass(frozen=True, slots=True)
class Example:
    """A question and its answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Shots:
    r"""Examples, and how they are written before a question.

    A text prompt follows the examples as ``template`` writes them, and ends where its own answer
    would begin. In a chat each example is a message of the user and one of the assistant.

    >>> shots = Shots((Example("1 + 1", "2"),), "{prompt} = {answer}\n")
    >>> shots.before(Problem(problem_id="p", prompt="2 + 3"), chat=False).prompt
    '1 + 1 = 2\n2 + 3 ='
    """

    examples: tuple[Example, ...]
    template: str = TEMPLATE

    def before(self, problem: Problem, *, chat: bool) -> Problem:
        """The problem with the examples before its prompt; one that has them stays as it is."""
        prompt = problem.prompt
        if isinstance(prompt, str) and not chat:
            return replace(problem, prompt=self._text(prompt))
        given = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
        return replace(problem, prompt=self._messages(given))

    def _text(self, prompt: str) -> str:
        before, _, rest = self.template.partition("{prompt}")
        between, _, after = rest.partition("{answer}")
        beginning = "".join(
            f"{before}{each.prompt}{between}{each.answer}{after}" for each in self.examples
        )
        if prompt.startswith(beginning):
            return prompt
        # A blank before the answer is part of its first token.
        return beginning + f"{before}{prompt}{between}".rstrip(" ")

    def _messages(self, given: Sequence[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
        shown = tuple(
            {"role": role, "content": text}
            for each in self.examples
            for role, text in (("user", each.prompt), ("assistant", each.answer))
        )
        first = 1 if given[0]["role"] == "system" else 0
        if tuple(given[first : first + len(shown)]) == shown:
            return tuple(given)
        return (*given[:first], *shown, *given[first:])


def drawn_examples(
    problems: Sequence[Problem], *, count: int | None, answer: str, seed: int, where: str
) -> tuple[list[Problem], tuple[Example, ...]]:
    """``count`` problems in the order of their draw, or all in theirs, and what they show."""
    if count is not None and count > len(problems):
        raise DataError(f"data.shots: {count} examples are needed, {where} has {len(problems)}")
    chosen = list(problems)
    if count is not None:
        order = generator(seed, "shots").permutation(len(problems))[:count]
        chosen = [problems[index] for index in order]
    return chosen, tuple(_example(problem, answer, where) for problem in chosen)


def _example(problem: Problem, answer: str, where: str) -> Example:
    value = problem.answer.get(answer)
    if value is None:
        raise DataError(
            f"data.shots: problem {problem.problem_id!r} of {where} has no {answer!r}; its fields "
            f"are {sorted(problem.answer)} (data.shots.answer names the one to show)"
        )
    if not isinstance(problem.prompt, str):
        raise DataError(
            f"data.shots: problem {problem.problem_id!r} of {where} is a chat; an example must be "
            f"text"
        )
    return Example(problem.prompt, str(value))


def recipe_shots(
    recipe: Recipe, train: Sequence[Problem]
) -> tuple[Shots | None, tuple[Problem, ...]]:
    """The examples, and the training problems that are left; no examples if none are asked for."""
    settings, data = recipe.data.shots, recipe.data
    if settings is None:
        return None, tuple(train)
    if data.chat is True and settings.template is not None:
        raise SettingsError(
            "data.shots.template is for plain prompts; in a chat (data.chat) each example is a "
            "message of the user and one of the assistant"
        )
    file = settings.file
    problems = train if file is None else load_problems(file, columns=data.columns)
    chosen, examples = drawn_examples(
        problems,
        count=settings.count,
        answer=settings.answer,
        seed=settings.seed,
        where=str(file or data.train),
    )
    shown = {each.problem_id for each in same_prompts(train, chosen)}
    left = tuple(problem for problem in train if problem.problem_id not in shown)
    return Shots(examples, settings.template or TEMPLATE), left


def require_no_shown_test(
    shots: Shots | None, sets: Iterable[tuple[str, Sequence[Problem]]]
) -> None:
    """Refuse a test problem among the examples: its answer would stand before every question."""
    if shots is None:
        return
    shown = [Problem(problem_id=each.prompt, prompt=each.prompt) for each in shots.examples]
    for name, problems in sets:
        if same := same_prompts(problems, shown):
            raise DataError(
                f"data.shots: problem {same[0].problem_id!r} of the evaluation set {name!r} is "
                "among the examples: take them from other problems, or draw by another "
                "data.shots.seed"
            )


class SetProblems:
    """Reads the file of a set when it is first asked for, and keeps what it found.

    ``load_all`` reads every set at once: what is wrong with one is found before anything else is
    started.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._data = recipe.data
        self._problems: dict[str, tuple[Problem, ...]] = {}
        self._read: dict[tuple[Path, tuple[tuple[str, str], ...]], tuple[Problem, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Problem, ...]:
        """The problems of the set ``name``."""
        if name not in self._problems:
            path, columns = self._data.sets[name].path, self._data.columns_of(name)
            file = (path, tuple(columns.items()))
            if file not in self._read:
                self._read[file] = tuple(load_problems(problems_file(path), columns=columns))
            self._problems[name] = self._read[file]
        return self._problems[name]

    def load_all(self) -> "SetProblems":
        """Read every set that has not been read."""
        for name in self._data.sets:
            self[name]
        return self


def verifier_maker(recipe: Recipe) -> Callable[[str], Verifier]:
    """Verifiers by name, with the recipe's databases, workers, time limit and own modules."""
    data = recipe.data
    return partial(
        make_verifier,
        databases=data.databases,
        workers=data.verifier_workers,
        timeout=data.verifier_timeout,
        modules=data.modules,
        **data.verifier_settings,
    )


def _environment(path: str, recipe: Recipe) -> Environment:
    settings, databases = recipe.environment, recipe.data.databases
    if path == SQL:
        if databases is None:
            raise SettingsError("environment.path = 'sql' needs data.databases, their directory")
        return sql_environment(
            databases, form=settings.form, limits=settings.limits, hidden=settings.hidden
        )
    if path == CODE:
        return code_environment(form=settings.form, limits=settings.limits, hidden=settings.hidden)
    package = path.removeprefix(PREFIX) if path.startswith(PREFIX) else ""
    return Environment(
        f"dph.tasks.environments.tasksets:packages.{package}" if package else path,
        source=package,
        directories=recipe.data.modules,
        form=settings.form,
        limits=settings.limits,
        submits=settings.submits,
        hidden=settings.hidden,
        columns=settings.columns,
    )


def run_verifier(recipe: Recipe) -> Verifier:
    """The verifier of a run's training: that of ``[data]``, or of its ``[environment]``."""
    name, settings = recipe.data.verifier, recipe.environment
    if settings.path is None:
        return verifier_maker(recipe)(name)
    environment = _environment(settings.path, recipe)
    try:
        if not environment.rewards:
            return EnvironmentVerifier(environment, verifier_maker(recipe)(name))
        if name != DataSettings.model_fields["verifier"].default:
            raise SettingsError(
                f"data.verifier = {name!r}, and the class {settings.path!r} has 'get_reward': "
                "which of them says what a trajectory is worth? Leave one out"
            )
        return EnvironmentVerifier(environment, None)
    except BaseException:
        environment.close()
        raise
