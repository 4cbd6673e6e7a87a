"""The evaluation stage: samples.parquet and evaluation.json of one model."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from transformers import PreTrainedModel

from dph._base.files import only_writer, write_json
from dph._base.randomness import derived_seed
from dph.errors import SettingsError
from dph.model.policies import directory_fingerprint, tokenizer_fingerprint, weight_fingerprint
from dph.model.sampler.episodes import AnswerSampler
from dph.model.sampler.graded import GradedSampler
from dph.recipe import recipe_digest
from dph.runs.answers import drawing, scorer_of
from dph.runs.directory import EvaluationDirectory, step_of
from dph.runs.evaluate.evaluate import EvaluationSet, evaluate, keep_token_details, total_answers
from dph.runs.evaluate.progress_file import step_metrics_of
from dph.runs.evaluate.samples_file import comparable_scores, read_samples, samples_digest
from dph.runs.evaluate.scores import evaluation_document, keep_problems
from dph.runs.job import PreparedSet, RunJob
from dph.runs.progress import ProgressDisplay, warn_of_cut_off
from dph.runs.train.kept_samples import stored_table
from dph.runs.train.tracking import open_trackers, shown_answers


def evaluation_set(job: RunJob, training: AnswerSampler, chosen: PreparedSet) -> EvaluationSet:
    """An evaluation set with its sampler: that of training with the settings of ``[evaluate]``."""
    settings = job.recipe.evaluate
    parameters = replace(
        training.parameters,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens or training.parameters.max_tokens,
    )
    draw = replace(training, parameters=parameters)
    if isinstance(draw, GradedSampler):  # else the environment grades, and tools are the style
        draw = replace(draw, verifier=chosen.verifier, style=chosen.style)
    return EvaluationSet(name=chosen.name, problems=chosen.problems, draw=draw)


def _track(
    job: RunJob, directory: Path, samples: pa.Table, document: Mapping[str, Any], *, model: Path
) -> None:
    """Send the evaluation to trackers, under the name ``<recipe>-evaluation-<directory>``."""
    recipe = job.recipe
    name, step = f"{recipe.name}-evaluation-{directory.name}", step_of(model)
    most, seed = shown_answers(recipe.track), recipe.evaluate.seed
    tables = [
        stored_table(samples, job.sets[one].problems, name=one, step=step, most=most, seed=seed)
        for one in (document["sets"] if most else ())
    ]
    with contextlib.closing(open_trackers(recipe.track, recipe, directory, name=name)) as trackers:
        trackers.log(step_metrics_of(document["sets"]), step=step)
        trackers.log_tables(tables, step=step)


def _keep_tokens(
    job: RunJob,
    place: EvaluationDirectory,
    progress: ProgressDisplay,
    sets: Sequence[EvaluationSet],
    samples: pa.Table,
    *,
    weights: PreTrainedModel,
    seed: int,
) -> None:
    """Write the ``tokens.parquet`` of the graded answers ``samples``."""
    recipe, tokenizer = job.recipe, job.prompts.tokenizer
    scorer = scorer_of(recipe, tokenizer, temperature=recipe.evaluate.temperature)
    problems = sum(len(chosen.problems) for chosen in sets)
    with progress.task(f"tokens of {place.path.name}", problems, "problems") as advance:
        keep_token_details(
            place.tokens,
            sets,
            samples,
            compare=partial(scorer.compared, weights, job.policies.initial()),
            piece=lambda token: str(tokenizer.decode([token])),
            samples=recipe.evaluate.token_details,
            seed=seed,
            digest=recipe_digest(
                samples_digest(place.samples) or "",
                directory_fingerprint(job.initial),
                recipe.evaluate.token_details,
            ),
            on_progress=lambda amount: advance(amount, ""),
        )


def evaluate_stage(
    job: RunJob,
    directory: Path,
    progress: ProgressDisplay,
    *,
    model: Path,
    base: Path | None = None,
) -> dict[str, Any]:
    """Evaluate the weights in ``model`` on every set of the recipe; continue after a kill.

    ``base`` is the directory of the initial policy's evaluation; without it the model is the
    initial policy, and is compared with itself. Returns the content of ``evaluation.json``.
    """
    settings, place = job.recipe.evaluate, EvaluationDirectory(directory)
    if not job.sets:
        raise SettingsError("the recipe names no evaluation set (data.sets.<name> = <path>)")
    known = samples_digest(place.samples)
    tables = {str(directory): _samples(job, place, progress, model)}
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
    write_json(place.evaluation, document)
    limit = settings.max_tokens or job.recipe.sampling.max_tokens
    for name, summary in document["sets"].items():
        warn_of_cut_off(progress, summary["cut_off"], of=f"the set {name!r}", max_tokens=limit)
    if job.recipe.track.to and samples_digest(place.samples) != known:
        _track(job, directory, tables[str(directory)], document, model=model)
    return document


def _samples(
    job: RunJob, place: EvaluationDirectory, progress: ProgressDisplay, model: Path
) -> pa.Table:
    """The samples of a model on every set; missing ones are drawn and graded."""
    settings, engine = job.recipe.evaluate, job.recipe.sampling.engine
    weights = job.policies.of(model, with_initial=bool(settings.token_details))
    fingerprint = recipe_digest(
        weight_fingerprint(weights),
        tokenizer_fingerprint(job.prompts.tokenizer),
        job.recipe.model.dtype,
        *([engine] if engine != "torch" else []),
    )
    seed = derived_seed(settings.seed, "evaluation")  # not the draws of pre-sampling
    with drawing(job, weights, model) as training, only_writer(place.path):
        sets = [evaluation_set(job, training, chosen) for chosen in job.sets.values()]
        total = total_answers(sets, samples=settings.samples)
        with progress.task(f"evaluating {place.path.name}", total, "samples") as advance:
            table = evaluate(
                place.samples,
                sets,
                model=fingerprint,
                samples=settings.samples,
                seed=seed,
                on_progress=lambda amount: advance(amount, ""),
            )
        keep_problems(place.problems, {s.name: s.problems for s in sets})
        if settings.token_details:
            _keep_tokens(job, place, progress, sets, table, weights=weights, seed=seed)
    return table
