"""The evaluation stage of a run: samples.parquet and evaluation.json of one model."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from transformers import PreTrainedModel

from dph._base.files import only_writer, write_json
from dph._base.randomness import derived_seed
from dph.errors import SettingsError
from dph.model.loading import load_config
from dph.model.policies import (
    directory_fingerprint,
    load_policy,
    tokenizer_fingerprint,
    weight_fingerprint,
)
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import AnswerSampler
from dph.model.sampler.graded import GradedSampler
from dph.recipe import SetSettings, recipe_digest
from dph.runs.directory import EvaluationDirectory, step_of
from dph.runs.drawing import drawing, require_engine, scorer_of
from dph.runs.evaluate.evaluate import EvaluationSet, evaluate, total_answers
from dph.runs.evaluate.progress_file import step_metrics_of
from dph.runs.evaluate.samples_file import (
    comparable_scores,
    read_samples,
    samples_digest,
)
from dph.runs.evaluate.scores import evaluation_document, keep_problems
from dph.runs.evaluate.token_details import TokenReader, keep_token_details
from dph.runs.plan import RunPlan
from dph.runs.progress import ProgressDisplay, warn_of_cut_off
from dph.runs.task import verifier_maker
from dph.runs.train.kept_samples import stored_table
from dph.runs.train.tracking import open_trackers, shown_answers
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


def track_evaluation(
    plan: RunPlan,
    directory: Path,
    samples: pa.Table,
    document: Mapping[str, Any],
    *,
    model: Path,
) -> None:
    """Send what was measured of ``model``, under the name ``<recipe>-evaluation-<directory>``.

    ``samples`` and ``document`` are the content of samples.parquet and evaluation.json.
    """
    recipe = plan.recipe
    if not recipe.track.to:
        return
    name, step = f"{recipe.name}-evaluation-{directory.name}", step_of(model)
    most, seed = shown_answers(recipe.track), recipe.evaluate.seed
    tables = [
        stored_table(samples, plan.sets[one], name=one, step=step, most=most, seed=seed)
        for one in (document["sets"] if most else ())
    ]
    with contextlib.closing(open_trackers(recipe.track, recipe, directory, name=name)) as trackers:
        trackers.log(step_metrics_of(document["sets"]), step=step)
        trackers.log_tables(tables, step=step)


def keep_tokens(
    plan: RunPlan,
    directory: Path,
    progress: ProgressDisplay,
    sets: Sequence[EvaluationSet],
    samples: pa.Table,
    *,
    weights: PreTrainedModel,
    seed: int,
) -> None:
    """Write ``tokens.parquet`` of the graded answers ``samples``, next to their file."""
    recipe, tokenizer = plan.recipe, plan.prompts.tokenizer
    initial = load_policy(plan.initial, plan.recipe.model, initial=plan.initial)
    scorer = scorer_of(recipe, tokenizer, temperature=recipe.evaluate.temperature)
    compare = partial(scorer.compared, weights, initial)
    problems = sum(len(chosen.problems) for chosen in sets)
    with progress.task(f"tokens of {directory.name}", problems, "problems") as advance:
        keep_token_details(
            EvaluationDirectory(directory).tokens,
            sets,
            samples,
            TokenReader(
                compare=compare, piece=lambda token: str(plan.prompts.tokenizer.decode([token]))
            ),
            samples=recipe.evaluate.token_details,
            seed=seed,
            digest=recipe_digest(
                samples_digest(EvaluationDirectory(directory).samples) or "",
                directory_fingerprint(plan.initial),
                recipe.evaluate.token_details,
            ),
            on_progress=lambda amount: advance(amount, ""),
        )


def evaluate_stage(
    plan: RunPlan,
    directory: Path,
    progress: ProgressDisplay,
    *,
    model: Path,
    base: Path | None = None,
) -> dict[str, Any]:
    """Evaluate the weights in ``model`` on every set of the recipe; continue after a kill.

    ``base`` is the directory of the initial policy's evaluation, for keep and explore; without it
    the model is taken for the initial policy and compared with itself. Returns the content of
    ``evaluation.json``.
    """
    settings = plan.recipe.evaluate
    if not plan.recipe.data.sets:
        raise SettingsError("the recipe names no evaluation set (data.sets.<name> = <path>)")
    known = samples_digest(EvaluationDirectory(directory).samples)
    tables = {str(directory): _samples(plan, directory, progress, model)}
    if base is not None:
        tables[str(base)] = read_samples(EvaluationDirectory(base).samples)
    scores = comparable_scores(tables)
    document = evaluation_document(
        str(model),
        settings.samples,
        scores[str(directory)],
        scores[str(base or directory)],
        settings.k,
        settings.seed,
        retention_k=settings.retention_k,
    )
    write_json(EvaluationDirectory(directory).evaluation, document)
    limit = settings.max_tokens or plan.recipe.sampling.max_tokens
    for name, summary in document["sets"].items():
        warn_of_cut_off(progress, summary["cut_off"], of=f"the set {name!r}", max_tokens=limit)
    if samples_digest(EvaluationDirectory(directory).samples) != known:
        track_evaluation(plan, directory, tables[str(directory)], document, model=model)
    return document


def _samples(plan: RunPlan, directory: Path, progress: ProgressDisplay, model: Path) -> pa.Table:
    """The samples of a model on every set, drawn and graded or found."""
    require_engine(plan.recipe)
    settings, weights = (
        plan.recipe.evaluate,
        load_policy(model, plan.recipe.model, initial=plan.initial),
    )
    engine = plan.recipe.sampling.engine
    fingerprint = recipe_digest(
        weight_fingerprint(weights),
        tokenizer_fingerprint(plan.prompts.tokenizer),
        plan.recipe.model.dtype,
        *([engine] if engine != "torch" else []),
    )
    seed = derived_seed(settings.seed, "evaluation")  # not the draws of pre-sampling
    with _evaluation_sets(plan, weights, model) as sets:
        for chosen in sets:
            plan.prompts.require_fit(
                weights.config, chosen.problems, max_tokens=chosen.draw.parameters.max_tokens
            )
        total = total_answers(sets, samples=settings.samples)
        title = f"evaluating {directory.name}"
        with only_writer(directory), progress.task(title, total, "samples") as advance:
            table = evaluate(
                EvaluationDirectory(directory).samples,
                sets,
                model=fingerprint,
                samples=settings.samples,
                seed=seed,
                on_progress=lambda amount: advance(amount, ""),
            )
            asked = {s.name: s.problems for s in sets}
            keep_problems(EvaluationDirectory(directory).problems, asked)
        if settings.token_details:
            with only_writer(directory):
                keep_tokens(plan, directory, progress, sets, table, weights=weights, seed=seed)
    return table


def require_evaluable(plan: RunPlan) -> None:
    """Find out what is wrong with the evaluation sets before hours of training, not after."""
    recipe = plan.recipe
    config = load_config(plan.initial)
    for name, settings in recipe.data.sets.items():
        set_style(plan, settings)
        with ExitStack() as stack:
            set_verifier(plan, settings, stack)
        plan.prompts.require_fit(
            config,
            plan.sets[name],
            max_tokens=recipe.evaluate.max_tokens or recipe.sampling.max_tokens,
        )


@contextmanager
def _evaluation_sets(
    plan: RunPlan, weights: PreTrainedModel, path: Path
) -> Iterator[list[EvaluationSet]]:
    """The recipe's sets, each with its own verifier and style classifier, and one sampler."""
    with ExitStack() as stack:
        training = stack.enter_context(drawing(plan, weights, path))
        yield [
            evaluation_set(plan, training, name, set_verifier(plan, settings, stack))
            for name, settings in plan.recipe.data.sets.items()
        ]
