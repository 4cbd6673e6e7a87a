"""The pre-sampling stage of a run: a pool that fits the recipe, made, split again or found."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from transformers import PreTrainedModel

from dph._base.files import make_directory, only_writer
from dph.errors import PoolError
from dph.model.hub import uses_hub
from dph.model.policies import load_policy, tokenizer_fingerprint, weight_fingerprint
from dph.recipe import Recipe, save_recipe
from dph.runs.directory import RunDirectory, is_made
from dph.runs.drawing import drawing, graded_sampler, require_engine, scorer_of
from dph.runs.plan import RunPlan
from dph.runs.presample.making import only_maker, require_free
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
from dph.runs.verifier_use import accepted_grading
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


def pool_source(plan: RunPlan, model: PreTrainedModel) -> Source:
    """The key of the run's pool: the origin of its answers; ``model`` is the initial policy."""
    recipe, parameters = plan.recipe, graded_sampler(plan, model).parameters
    acting = isinstance(plan.verifier, EnvironmentVerifier)
    tokens = {"environment": {"tokens": recipe.environment.tokens}} if acting else {}
    return Source(
        model=recipe.model.path,
        model_fingerprint=weight_fingerprint(model),
        tokenizer_fingerprint=tokenizer_fingerprint(plan.prompts.tokenizer),
        prompts="train",
        prompts_fingerprint=plan.asked_fingerprint,
        chat=plan.prompts.chat,
        system_prompt=plan.prompts.system_prompt,
        answers=recipe.presample.samples,
        temperature=parameters.temperature,
        top_p=parameters.top_p,
        max_tokens=parameters.max_tokens,
        stop_token_ids=parameters.stop_token_ids,
        dtype=recipe.model.dtype,
        seed=plan.presampling_seed,
        engine=recipe.sampling.engine,
        **tokens,
    )


def presample_stage(
    plan: RunPlan, progress: ProgressDisplay, *, may_split_again: bool = True
) -> Manifest:
    """Make the pool, or continue a half-made one; a finished one is checked and kept.

    A finished pool of the same samples that was split by another rule is split again by this
    one, and nothing is drawn; not without ``may_split_again``, and never a pool that a run was
    trained on.
    """
    path = plan.pool
    require_free(path)
    if not is_made(path):
        require_engine(plan.recipe)
    model = load_policy(plan.initial, plan.recipe.model, initial=plan.initial)
    expected = _Expected(
        plan=plan,
        source=pool_source(plan, model),
        may_split_again=may_split_again,
    )
    if found := expected.found():
        return found
    if not is_made(path):
        limit = plan.recipe.sampling.max_tokens
        plan.prompts.require_fit(model.config, plan.problems, max_tokens=limit)
    with ExitStack() as held:
        held.enter_context(only_maker(path))
        directory = plan.directory.path.resolve()
        if path.resolve().is_relative_to(directory):  # the run's own: no other stage meanwhile
            held.enter_context(only_writer(directory))
        if found := expected.found():  # again, now that nobody else changes it
            return found
        pin(plan.recipe, plan.directory)
        if is_made(path):
            return _split_again(model, expected, progress)
        with timed(path):
            return _make(model, expected, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """The pool that this run needs, and the runs that may have been trained on what is there."""

    plan: RunPlan
    source: Source
    may_split_again: bool

    @property
    def trained(self) -> Path | None:
        """The newest checkpoint of this run, or of the one whose own pool it is."""
        runs = (self.plan.directory, RunDirectory(self.plan.pool.parent))
        return next((c for run in runs if (c := run.newest_checkpoint)), None)

    def found(self) -> Manifest | None:
        """The manifest of a pool that can be used as it is; None where there is work to do."""
        path, rule = self.plan.pool, self.plan.rule
        if not is_made(path):
            return None
        found = read_manifest(path)
        require_source(path, found, self.source, accepted_grading(self.plan, found))
        if self.may_split_again and found.rule != rule:
            return None
        require_rule(path, found, rule)
        require_whole(path, found)
        return found


def _make(model: PreTrainedModel, expected: _Expected, progress: ProgressDisplay) -> Manifest:
    plan = expected.plan
    total = len(plan.problems) * (expected.source.answers + 1)
    with (
        drawing(plan, model, plan.initial) as draw,
        progress.task("pre-sampling", total, "samples") as advance,
    ):
        return presample(
            plan.problems,
            plan.pool,
            draw=draw,
            reference=_reference(plan, model),
            source=expected.source,
            grading=plan.grading,
            rule=plan.rule,
            on_progress=lambda amount: advance(amount, ""),
        )


def _split_again(
    model: PreTrainedModel, expected: _Expected, progress: ProgressDisplay
) -> Manifest:
    plan = expected.plan
    path, rule, draw = plan.pool, plan.rule, graded_sampler(plan, model)
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
        reference=_reference(plan, model),
        temperature=draw.parameters.temperature,
    )
    return split_again(plan.problems, path, found, scored=scored, rule=rule)


def _change(before: Rule, after: Rule) -> str:
    """Difference of the rule, ``threshold 7 -> 6``."""
    was, now = before.model_dump(), after.model_dump()
    changes = [f"{key} {was.get(key)} -> {now[key]}" for key in now if was.get(key) != now[key]]
    return ", ".join(changes)


def _reference(plan: RunPlan, model: PreTrainedModel) -> Reference:
    # Runs share a pool whatever they share in training: it does not depend on that.
    scorer = replace(scorer_of(plan.recipe, plan.prompts.tokenizer), sharing="auto")
    return partial(scorer.logprobs, model)
