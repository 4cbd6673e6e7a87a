"""The pre-sampling stage: make the pool of a recipe, split it again, or find it."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from transformers import PreTrainedModel

from dph._base.files import make_directory, only_writer
from dph.errors import PoolError
from dph.model.hub import uses_hub
from dph.model.policies import tokenizer_fingerprint, weight_fingerprint
from dph.recipe import Recipe, save_recipe
from dph.runs.answers import drawing, graded_sampler, parameters_of, scorer_of
from dph.runs.directory import RunDirectory, is_made
from dph.runs.job import RunJob
from dph.runs.prepare import accepted_grading
from dph.runs.presample.manifest import (
    Manifest,
    Source,
    read_manifest,
    require_rule,
    require_source,
    require_whole,
)
from dph.runs.presample.pool import only_maker
from dph.runs.presample.presample import Reference, StoredForm, presample, split_again
from dph.runs.progress import ProgressDisplay
from dph.runs.stage_costs import timed
from dph.tasks.environments import EnvironmentVerifier


def pin(recipe: Recipe, run: RunDirectory) -> None:
    """Write the recipe with its commits into a run directory that has none yet.

    Training writes it anyway. Before the pool is made, it lets a run that is stopped continue with
    the same model and data, even if others are pushed meanwhile.
    """
    path = run.recipe_file
    if uses_hub(recipe) and not path.exists():
        make_directory(path.parent)
        save_recipe(recipe, path)


def pool_source(job: RunJob, model: PreTrainedModel) -> Source:
    """The origin of the answers in the run's pool; ``model`` is the initial policy."""
    recipe, parameters = job.recipe, parameters_of(job, model)
    acting = isinstance(job.verifier, EnvironmentVerifier)
    tokens = {"environment": {"tokens": recipe.environment.tokens}} if acting else {}
    return Source(
        model=recipe.model.path,
        model_fingerprint=weight_fingerprint(model),
        tokenizer_fingerprint=tokenizer_fingerprint(job.prompts.tokenizer),
        prompts="train",
        prompts_fingerprint=job.key.asked,
        chat=job.prompts.chat,
        system_prompt=job.prompts.system_prompt,
        answers=recipe.presample.samples,
        temperature=parameters.temperature,
        top_p=parameters.top_p,
        max_tokens=parameters.max_tokens,
        stop_token_ids=parameters.stop_token_ids,
        dtype=recipe.model.dtype,
        seed=recipe.presampling_seed,
        engine=recipe.sampling.engine,
        **tokens,
    )


def presample_stage(
    job: RunJob, progress: ProgressDisplay, *, may_split_again: bool = True
) -> Manifest:
    """Make the pool, or continue a half-made one; a finished one is checked and kept.

    A finished pool of the same samples that was split by another rule is split again and nothing
    is drawn, but only with ``may_split_again``, and never if a run was trained on it.
    """
    path, model = job.pool, job.policies.initial()
    source = pool_source(job, model)
    if found := _found(job, source, may_split_again=may_split_again):
        return found
    with ExitStack() as held:
        held.enter_context(only_maker(path))
        directory = job.directory.path.resolve()
        if path.resolve().is_relative_to(directory):  # the run's own: no other stage meanwhile
            held.enter_context(only_writer(directory))
        # Again, now that no other process changes it.
        if found := _found(job, source, may_split_again=may_split_again):
            return found
        pin(job.recipe, job.directory)
        scorer = replace(scorer_of(job.recipe, job.prompts.tokenizer), sharing="auto")
        reference = partial(scorer.logprobs, model)  # independent of what training shares
        if is_made(path):
            return _split_again(job, model, reference, progress)
        total = len(job.problems) * (source.answers + 1)
        with (
            timed(path),
            drawing(job, model, job.initial) as draw,
            progress.task("pre-sampling", total, "samples") as advance,
        ):
            return presample(
                job.problems,
                path,
                draw=draw,
                reference=reference,
                source=source,
                grading=job.grading,
                rule=job.rule,
                on_progress=lambda amount: advance(amount, ""),
            )


def _found(job: RunJob, source: Source, *, may_split_again: bool) -> Manifest | None:
    """The manifest of a pool that can be used unchanged; None if there is work to do."""
    path = job.pool
    if not is_made(path):
        return None
    found = read_manifest(path)
    require_source(path, found, source, accepted_grading(job, found))
    if may_split_again and found.rule != job.rule:
        return None
    require_rule(path, found, job.rule)
    require_whole(path, found)
    return found


def _split_again(
    job: RunJob, model: PreTrainedModel, reference: Reference, progress: ProgressDisplay
) -> Manifest:
    path, rule, draw = job.pool, job.rule, graded_sampler(job, model)
    found = read_manifest(path)
    was, now = found.rule.model_dump(), rule.model_dump()
    change = ", ".join(f"{k} {was.get(k)} -> {now[k]}" for k in now if was.get(k) != now[k])
    runs = (job.directory, RunDirectory(path.parent))  # this run, and the owner of the pool
    if trained := next((c for run in runs if (c := run.newest_checkpoint)), None):
        raise PoolError(
            f"a run was trained on the pool {path} ({trained}), so it is not split again "
            f"({change}): use another directory (--out), with a copy of the pool to avoid drawing "
            f"again"
        )
    progress.say(
        f"the pool {path} is finished: its samples are split again ({change}), nothing is drawn"
    )
    temperature = draw.parameters.temperature
    scored = StoredForm(encode=draw.encode, reference=reference, temperature=temperature)
    return split_again(job.problems, path, found, scored=scored, rule=rule)
