"""The pre-sampling stage of a run: a pool that fits the recipe, made, split again or found."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

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
from dph.runs.presample.making import only_maker
from dph.runs.presample.manifest import (
    Manifest,
    Rule,
    Source,
    read_manifest,
    require_rule,
    require_source,
    require_whole,
)
from dph.runs.presample.presample import Reference, StoredForm, presample, split_again
from dph.runs.progress import ProgressDisplay
from dph.runs.stage_costs import timed
from dph.tasks.environments import EnvironmentVerifier


def pin(recipe: Recipe, run: RunDirectory) -> None:
    """Write the recipe with its commits into a run's directory that has none yet.

    Training writes it anyway. Here it comes before the pool, so that a run which is stopped while
    that is made goes on with the same model and data, whatever is pushed meanwhile.
    """
    path = run.recipe_file
    if uses_hub(recipe) and not path.exists():
        make_directory(path.parent)
        save_recipe(recipe, path)


def pool_source(job: RunJob, model: PreTrainedModel) -> Source:
    """The key of the run's pool: the origin of its answers; ``model`` is the initial policy."""
    recipe, parameters = job.recipe, parameters_of(job, model)
    acting = isinstance(job.verifier, EnvironmentVerifier)
    tokens = {"environment": {"tokens": recipe.environment.tokens}} if acting else {}
    return Source(
        model=recipe.model.path,
        model_fingerprint=weight_fingerprint(model),
        tokenizer_fingerprint=tokenizer_fingerprint(job.prompts.tokenizer),
        prompts="train",
        prompts_fingerprint=job.asked_fingerprint,
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

    A finished pool of the same samples that was split by another rule is split again by this
    one, and nothing is drawn; not without ``may_split_again``, and never a pool that a run was
    trained on.
    """
    path, model = job.pool, job.policies.initial()
    expected = _Expected(
        job=job,
        source=pool_source(job, model),
        may_split_again=may_split_again,
    )
    if found := expected.found():
        return found
    with ExitStack() as held:
        held.enter_context(only_maker(path))
        directory = job.directory.path.resolve()
        if path.resolve().is_relative_to(directory):  # the run's own: no other stage meanwhile
            held.enter_context(only_writer(directory))
        if found := expected.found():  # again, now that nobody else changes it
            return found
        pin(job.recipe, job.directory)
        if is_made(path):
            return _split_again(model, expected, progress)
        with timed(path):
            return _make(model, expected, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """The pool that this run needs, and the runs that may have been trained on what is there."""

    job: RunJob
    source: Source
    may_split_again: bool

    @property
    def trained(self) -> Path | None:
        """The newest checkpoint of this run, or of the one whose own pool it is."""
        runs = (self.job.directory, RunDirectory(self.job.pool.parent))
        return next((c for run in runs if (c := run.newest_checkpoint)), None)

    def found(self) -> Manifest | None:
        """The manifest of a pool that can be used as it is; None where there is work to do."""
        path, rule = self.job.pool, self.job.rule
        if not is_made(path):
            return None
        found = read_manifest(path)
        require_source(path, found, self.source, accepted_grading(self.job, found))
        if self.may_split_again and found.rule != rule:
            return None
        require_rule(path, found, rule)
        require_whole(path, found)
        return found


def _make(model: PreTrainedModel, expected: _Expected, progress: ProgressDisplay) -> Manifest:
    job = expected.job
    total = len(job.problems) * (expected.source.answers + 1)
    with (
        drawing(job, model, job.initial) as draw,
        progress.task("pre-sampling", total, "samples") as advance,
    ):
        return presample(
            job.problems,
            job.pool,
            draw=draw,
            reference=_reference(job, model),
            source=expected.source,
            grading=job.grading,
            rule=job.rule,
            on_progress=lambda amount: advance(amount, ""),
        )


def _split_again(
    model: PreTrainedModel, expected: _Expected, progress: ProgressDisplay
) -> Manifest:
    job = expected.job
    path, rule, draw = job.pool, job.rule, graded_sampler(job, model)
    found = read_manifest(path)
    change = _change(found.rule, rule)
    if trained := expected.trained:
        raise PoolError(
            f"a run was trained on the pool {path} ({trained}), so it is not split again "
            f"({change}): use another directory (--out), with a copy of the pool to avoid drawing "
            f"again"
        )
    progress.say(
        f"the pool {path} is finished: its samples are split again ({change}), nothing is drawn"
    )
    scored = StoredForm(
        encode=draw.encode,
        reference=_reference(job, model),
        temperature=draw.parameters.temperature,
    )
    return split_again(job.problems, path, found, scored=scored, rule=rule)


def _change(before: Rule, after: Rule) -> str:
    """Difference of the rule, ``threshold 7 -> 6``."""
    was, now = before.model_dump(), after.model_dump()
    changes = [f"{key} {was.get(key)} -> {now[key]}" for key in now if was.get(key) != now[key]]
    return ", ".join(changes)


def _reference(job: RunJob, model: PreTrainedModel) -> Reference:
    # Runs share a pool whatever they share in training: it does not depend on that.
    scorer = replace(scorer_of(job.recipe, job.prompts.tokenizer), sharing="auto")
    return partial(scorer.logprobs, model)
