"""What an engine would be started with, as text that a shell takes: nothing is started."""

import shlex
from pathlib import Path

import torch

from dph.integrations.engines import trl_stage
from dph.integrations.engines.prompts import longest_prompt
from dph.integrations.engines.trl_arguments import trl_arguments
from dph.runs.workbench import Workbench


def commands_text(bench: Workbench, directory: Path) -> str:
    """The commands, one setting a line, after the checks that a run begins with.

    Raises:
        DphError: the engine is not installed, or cannot have the recipe.
    """
    return _of_trl(bench, directory)


def _of_trl(bench: Workbench, directory: Path) -> str:
    trl_stage.check(bench)
    cuda = bench.recipe.model.device != "cpu" and torch.cuda.is_available()
    fields = trl_arguments(bench.recipe, directory, longest_prompt=longest_prompt(bench), cuda=cuda)
    return "\n".join(
        [
            "# the fields of DPHConfig",
            *(f"#   {name} = {value!r}" for name, value in fields.items()),
            shlex.join(trl_stage.trl_command(bench.recipe, directory)),
        ]
    )
