"""The evaluation stage of a run: samples.parquet and evaluation.json of one model."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from transformers import PreTrainedModel

from dph._base.files import only_writer, write_json
from dph._base.randomness import derived_seed
from dph.errors import SettingsError
from dph.model.fingerprint import directory_fingerprint, tokenizer_fingerprint, weight_fingerprint
from dph.model.forward.compared import compared_tokens
from dph.model.loading import load_config
from dph.recipe import recipe_digest
from dph.runs.evaluate.evaluate import EvaluationSet, evaluate, total_answers
from dph.runs.evaluate.progress_file import step_metrics_of
from dph.runs.evaluate.samples_file import (
    TOKENS_FILE,
    comparable_scores,
    read_samples,
    samples_digest,
)
from dph.runs.evaluate.scores import PROBLEMS_FILE, evaluation_document, keep_problems
from dph.runs.evaluate.token_details import TokenReader, keep_token_details
from dph.runs.evaluation_sets import evaluation_set, set_style, set_verifier
from dph.runs.layout import EVALUATION, SAMPLES
from dph.runs.progress import ProgressDisplay
from dph.runs.train.kept_samples import stored_table
from dph.runs.train.tracking import open_trackers, shown_answers
from dph.runs.workbench import Workbench

# An evaluation in the trackers of a recipe: scores and some answers, as a run of its own.


def track_evaluation(
    bench: Workbench,
    directory: Path,
    samples: pa.Table,
    document: Mapping[str, Any],
    *,
    model: Path,
) -> None:
    """Send what was measured of ``model``, under the name ``<recipe>-evaluation-<directory>``.

    ``samples`` and ``document`` are the content of samples.parquet and evaluation.json.

    Raises:
        SettingsError: a tracker is not installed.
    """
    recipe = bench.recipe
    if not recipe.track.to:
        return
    name, step = f"{recipe.name}-evaluation-{directory.name}", _step_of(model)
    most, seed = shown_answers(recipe.track), recipe.evaluate.seed
    tables = [
        stored_table(samples, bench.sets[one], name=one, step=step, most=most, seed=seed)
        for one in (document["sets"] if most else ())
    ]
    with contextlib.closing(open_trackers(recipe.track, recipe, directory, name=name)) as trackers:
        trackers.log(step_metrics_of(document["sets"]), step=step)
        trackers.log_tables(tables, step=step)


def _step_of(model: Path) -> int:
    """The step of a checkpoint by its name; 0 for a model that no run trained."""
    found = re.fullmatch(r"step_(\d+)", model.name)
    return int(found[1]) if found else 0


# The tokens of some evaluated answers, scored by the evaluated model and by the initial policy.


def keep_tokens(
    bench: Workbench,
    directory: Path,
    progress: ProgressDisplay,
    sets: Sequence[EvaluationSet],
    samples: pa.Table,
    *,
    weights: PreTrainedModel,
    seed: int,
) -> None:
    """Write ``tokens.parquet`` next to ``samples.parquet``, whose graded answers are ``samples``.

    Raises:
        ModelError: the initial policy cannot be loaded.
    """
    recipe = bench.recipe
    initial = bench.load_model(bench.initial)
    compare = partial(
        compared_tokens,
        weights,
        initial,
        temperature=recipe.evaluate.temperature,
        pad_id=int(bench.tokenizer.pad_token_id),
        token_budget=recipe.train.microbatch_tokens,
        dtype=recipe.model.dtype,
        sharing=recipe.train.shared_prompts,
    )
    problems = sum(len(chosen.problems) for chosen in sets)
    with progress.task(f"tokens of {directory.name}", problems, "problems") as advance:
        keep_token_details(
            directory / TOKENS_FILE,
            sets,
            samples,
            TokenReader(compare=compare, piece=lambda token: str(bench.tokenizer.decode([token]))),
            samples=recipe.evaluate.token_details,
            seed=seed,
            digest=recipe_digest(
                samples_digest(directory / "samples.parquet") or "",
                directory_fingerprint(bench.initial),
                recipe.evaluate.token_details,
            ),
            on_progress=lambda amount: advance(amount, ""),
        )


def evaluate_stage(
    bench: Workbench,
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

    Raises:
        SettingsError: the recipe names no evaluation set.
        DataError: a set is missing or malformed, or the base was evaluated on other problems.
    """
    settings = bench.recipe.evaluate
    if not bench.recipe.data.sets:
        raise SettingsError("the recipe names no evaluation set (data.sets.<name> = <path>)")
    known = samples_digest(directory / SAMPLES)
    tables = {str(directory): _samples(bench, directory, progress, model)}
    if base is not None:
        tables[str(base)] = read_samples(base / SAMPLES)
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
    write_json(directory / EVALUATION, document)
    if samples_digest(directory / SAMPLES) != known:
        track_evaluation(bench, directory, tables[str(directory)], document, model=model)
    return document


def _samples(bench: Workbench, directory: Path, progress: ProgressDisplay, model: Path) -> pa.Table:
    """The samples of a model on every set, drawn and graded or found."""
    bench.require_engine()
    settings, weights = bench.recipe.evaluate, bench.load_model(model)
    engine = bench.recipe.sampling.engine
    fingerprint = recipe_digest(
        weight_fingerprint(weights),
        tokenizer_fingerprint(bench.tokenizer),
        bench.recipe.model.dtype,
        *([engine] if engine != "torch" else []),
    )
    seed = derived_seed(settings.seed, "evaluation")  # not the draws of pre-sampling
    with _evaluation_sets(bench, weights, model) as sets:
        for chosen in sets:
            bench.require_prompts_fit(
                weights.config, chosen.problems, max_tokens=chosen.draw.parameters.max_tokens
            )
        total = total_answers(sets, samples=settings.samples)
        title = f"evaluating {directory.name}"
        with only_writer(directory), progress.task(title, total, "samples") as advance:
            table = evaluate(
                directory / SAMPLES,
                sets,
                model=fingerprint,
                samples=settings.samples,
                seed=seed,
                on_progress=lambda amount: advance(amount, ""),
            )
            keep_problems(directory / PROBLEMS_FILE, {s.name: s.problems for s in sets})
        if settings.token_details:
            with only_writer(directory):
                keep_tokens(bench, directory, progress, sets, table, weights=weights, seed=seed)
    return table


def require_evaluable(bench: Workbench) -> None:
    """Find out what is wrong with the evaluation sets before hours of training, not after.

    Raises:
        DphError: a set, its verifier or its style classifier cannot be used.
    """
    recipe = bench.recipe
    config = load_config(bench.initial)
    for name, settings in recipe.data.sets.items():
        set_style(bench, settings)
        with ExitStack() as stack:
            set_verifier(bench, settings, stack)
        bench.require_prompts_fit(
            config,
            bench.sets[name],
            max_tokens=recipe.evaluate.max_tokens or recipe.sampling.max_tokens,
        )


@contextmanager
def _evaluation_sets(
    bench: Workbench, weights: PreTrainedModel, path: Path
) -> Iterator[list[EvaluationSet]]:
    """The recipe's sets, each with its own verifier and style classifier, and one sampler."""
    with ExitStack() as stack:
        training = stack.enter_context(bench.drawing(weights, path))
        yield [
            evaluation_set(bench, training, name, set_verifier(bench, settings, stack))
            for name, settings in bench.recipe.data.sets.items()
        ]
