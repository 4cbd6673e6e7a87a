"""Faults in the things that a recipe names, found in about a second, without torch."""

from collections.abc import Sequence

from dph.errors import SettingsError
from dph.recipe import Recipe
from dph.recipe.engines import require_engine_can
from dph.runs.memory import Device
from dph.runs.preflight.data import (
    Findings,
    NamedProblems,
    check_databases,
    check_shots,
    check_styles,
    check_verifiers,
    count_errors,
    read_data,
)
from dph.runs.preflight.model import check_model
from dph.runs.preflight.objective import check_objective, check_unlabelled
from dph.runs.preflight.prompts import check_memory, check_prompts, with_decided_chat

__all__ = ["Findings", "preflight"]


def preflight(recipe: Recipe, *, device: Device | None = None) -> Findings:
    """Open everything that the recipe names; what is not there yet is noted and not an error.

    ``device`` is the one whose memory has to do [default: the one at hand].

    Nothing is written, and neither the weights are read nor torch is loaded.
    """
    findings = Findings()
    if recipe.sampling.engine == "vllm":
        findings.unchecked.append("the installation of vLLM and the device that it is built for")
    try:
        require_engine_can(recipe)
    except SettingsError as error:
        findings.errors.append(str(error))
    config = check_model(recipe, findings)
    named = read_data(recipe, findings)
    prompts = [*named, *check_unlabelled(recipe, named, findings)]
    check_databases(recipe, prompts, findings)
    check_styles(recipe, findings)
    check_verifiers(recipe, named, findings)
    asked = check_shots(with_decided_chat(recipe, config), prompts, findings)
    _check_problems(recipe, asked, findings)
    check_prompts(recipe, config, asked, findings)
    check_memory(recipe, config, asked, findings, device=device)
    check_objective(recipe, findings)
    return findings


def _check_problems(recipe: Recipe, asked: Sequence[NamedProblems], findings: Findings) -> None:
    training = next((n for n in asked if n.key == "data.train"), None)
    if training is not None:
        findings.errors.extend(count_errors(recipe, training))
