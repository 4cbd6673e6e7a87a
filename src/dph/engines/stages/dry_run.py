"""The commands of verl, as text that a shell takes: nothing is started."""

import shlex
import sys

from dph.engines.stages import verl_stage
from dph.runs.directory import PROBLEMS_FILE
from dph.runs.job import RunJob


def commands_text(plan: RunJob) -> str:
    """The commands, one setting a line, after the checks that a run begins with.

    The engine need not be installed: the commands may be for another machine, and their Python is
    that of its ``PATH`` then.
    """
    installed = verl_stage.is_installed()
    verl_stage.require_possible(plan)
    text = _commands(plan, python=sys.executable if installed else "python")
    if installed:
        return text
    return f"# verl is not installed here: use an environment that has it\n\n{text}"


def _commands(plan: RunJob, *, python: str) -> str:
    run = verl_stage.run_of(plan)
    problems = run.place / PROBLEMS_FILE
    plain = shlex.quote(str(problems.with_suffix(".jsonl")))
    convert = f"dph convert --to verl --input {plain} --out {shlex.quote(str(problems))}"
    recipe, train = plan.directory.recipe_file.absolute(), plan.recipe.data.train
    first = (
        f"# `dph run` writes the recipe as {recipe} and the problems of {train} as {plain} first"
    )
    parts = [f"{first}\n{convert}"]
    pool = verl_stage.pool_is_missing(plan)
    for command in verl_stage.commands(run, pool=pool, python=python):
        variables = [f"{name}={shlex.quote(v)}" for name, v in command.environment.items()]
        words = [*variables, *map(shlex.quote, command.words)]
        parts.append(f"# {command.what}\n" + " \\\n  ".join(words))
    return "\n\n".join(parts)
