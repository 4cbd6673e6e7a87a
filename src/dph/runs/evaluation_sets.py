"""The evaluation sets of a recipe, each with its own verifier and style classifier."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import AnswerSampler
from dph.model.sampler.graded import GradedSampler
from dph.recipe import SetSettings
from dph.runs.evaluate.evaluate import EvaluationSet
from dph.runs.plan import RunPlan
from dph.runs.verifier_maker import verifier_maker
from dph.tasks.styles import make_style
from dph.tasks.verifiers.base import Verifier


def evaluation_set(
    plan: RunPlan, training: AnswerSampler, name: str, verifier: Verifier
) -> EvaluationSet:
    """The set ``name`` of the recipe, graded by ``verifier``.

    ``training`` draws training problems; what is drawn for the set differs as ``[evaluate]`` says.
    """
    settings = plan.recipe.data.sets[name]
    draw: AnswerSampler
    if isinstance(training, GradedSampler):
        style = set_style(plan, settings)
        parameters = _parameters(plan, training.parameters)
        draw = replace(training, parameters=parameters, verifier=verifier, style=style)
    else:  # the environment grades, and a trajectory's style is its tools
        draw = replace(training, parameters=_parameters(plan, training.parameters))
    return EvaluationSet(name=name, problems=plan.sets[name], draw=draw)


def set_verifier(plan: RunPlan, settings: SetSettings, stack: ExitStack) -> Verifier:
    """The set's own verifier, which ``stack`` stops, or the run's."""
    if settings.verifier is None:
        return plan.verifier
    verifier = verifier_maker(plan.recipe)(settings.verifier)
    stack.callback(verifier.close)
    return verifier


def set_style(plan: RunPlan, settings: SetSettings) -> Callable[[str], str | None] | None:
    """The set's own style classifier, or that of all data; None where there is none."""
    data = plan.recipe.data
    return make_style(settings.styles if settings.styles is not None else data.styles, data.modules)


def _parameters(plan: RunPlan, training: SamplingParameters) -> SamplingParameters:
    settings = plan.recipe.evaluate
    return replace(
        training,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens or training.max_tokens,
    )
