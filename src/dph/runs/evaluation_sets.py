"""The evaluation sets of a recipe, each with its own verifier and style classifier."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.recipe import SetSettings
from dph.runs.evaluate.evaluate import EvaluationSet
from dph.runs.verifier_maker import verifier_maker
from dph.runs.workbench import Workbench
from dph.tasks.styles import make_style
from dph.tasks.verifiers.base import Verifier


def evaluation_set(
    bench: Workbench, training: GradedSampler, name: str, verifier: Verifier
) -> EvaluationSet:
    """The set ``name`` of the recipe, graded by ``verifier``.

    ``training`` draws training problems; what is drawn for the set differs as ``[evaluate]`` says.
    """
    settings = bench.recipe.data.sets[name]
    draw = replace(
        training,
        parameters=_parameters(bench, training.parameters),
        verifier=verifier,
        style=set_style(bench, settings),
    )
    return EvaluationSet(name=name, problems=bench.sets[name], draw=draw)


def set_verifier(bench: Workbench, settings: SetSettings, stack: ExitStack) -> Verifier:
    """The set's own verifier, which ``stack`` stops, or the run's."""
    if settings.verifier is None:
        return bench.verifier
    verifier = verifier_maker(bench.recipe)(settings.verifier)
    stack.callback(verifier.close)
    return verifier


def set_style(bench: Workbench, settings: SetSettings) -> Callable[[str], str | None] | None:
    """The set's own style classifier, or that of all data; None where there is none."""
    data = bench.recipe.data
    return make_style(settings.styles if settings.styles is not None else data.styles, data.modules)


def _parameters(bench: Workbench, training: SamplingParameters) -> SamplingParameters:
    settings = bench.recipe.evaluate
    return replace(
        training,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens or training.max_tokens,
    )
