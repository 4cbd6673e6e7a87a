"""The command line of an engine, as text that a shell takes: nothing is started."""

import shlex
import sys

import torch

from dph.engines.stages import trl_stage, verl_stage
from dph.engines.stages.stage import is_installed, longest_prompt, require_possible
from dph.engines.stages.trl_stage import trl_arguments
from dph.runs.directory import PROBLEMS_FILE
from dph.runs.plan import RunPlan


def commands_text(plan: RunPlan) -> str:
    """The commands, one setting a line, after the checks that a run begins with.

    The engine need not be installed: the commands may be for another machine, and their Python is
    that of its ``PATH`` then.

    Raises:
        DphError: the engine cannot have the recipe.
    """
    engine, installed = plan.recipe.train.engine, is_installed(plan.recipe)
    require_possible(plan)
    text = {"trl": _of_trl, "verl": _of_verl}[engine](
        plan, python=sys.executable if installed else "python"
    )
    if installed:
        return text
    return f"# {engine} is not installed here: use an environment that has it\n\n{text}"


def _of_trl(plan: RunPlan, *, python: str) -> str:
    cuda = plan.recipe.model.device != "cpu" and torch.cuda.is_available()
    fields = trl_arguments(
        plan.recipe, plan.directory.path, longest_prompt=longest_prompt(plan), cuda=cuda
    )
    return "\n".join(
        [
            "# the fields of DPHConfig",
            *(f"#   {name} = {value!r}" for name, value in fields.items()),
            shlex.join(trl_stage.trl_command(plan.recipe, plan.directory.path, python=python)),
        ]
    )


def _of_verl(plan: RunPlan, *, python: str) -> str:
    run = verl_stage.run_of(plan)
    problems = run.place / PROBLEMS_FILE
    plain = shlex.quote(str(problems.with_suffix(".jsonl")))
    convert = f"dph convert --to verl --input {plain} --out {shlex.quote(str(problems))}"
    parts = [f"# the problems of {plan.recipe.data.train}, of any format, as {plain}\n{convert}"]
    pool = verl_stage.pool_is_missing(plan)
    for command in verl_stage.commands(run, pool=pool, python=python):
        variables = [f"{name}={shlex.quote(v)}" for name, v in command.environment.items()]
        words = [*variables, *map(shlex.quote, command.words)]
        parts.append(f"# {command.what}\n" + " \\\n  ".join(words))
    return "\n\n".join(parts)
