"""The training stage of a run: from the pool, or from all problems, to a checkpoint."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedModel

from dph._base.randomness import generator
from dph.errors import CheckpointError, PoolError
from dph.model.policies import has_adapter, load_policy, without_adapter
from dph.model.sampler.episodes import AnswerSampler
from dph.recipe import EvaluationSettings, Recipe, recipe_digest
from dph.recipe.objective import AnchorSettings
from dph.records import Problem
from dph.runs.directory import best_place, is_made, note_beginning
from dph.runs.drawing import graded_sampler, scorer_of, torch_sampler
from dph.runs.evaluate.evaluate import EvaluationSet, style_name
from dph.runs.evaluate.progress_file import measured_steps, read_progress_file
from dph.runs.evaluation_stage import evaluation_set
from dph.runs.plan import RunPlan
from dph.runs.presample.diagnosis import require_usable
from dph.runs.presample.manifest import Source, read_manifest, require_fit, require_policy_of
from dph.runs.presample.pool import Pool, load_pool
from dph.runs.presample.tables import RehearsalSample
from dph.runs.presampling_stage import pool_source
from dph.runs.progress import ProgressDisplay, warn_of_cut_off
from dph.runs.task import verifier_maker
from dph.runs.train.checkpoints import read_progress
from dph.runs.train.evaluations import Evaluations, InitialPolicy
from dph.runs.train.loop import Actors, Trained, train
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.self_consistency import SelfConsistency
from dph.runs.train.tracking import Metrics, shown_answers
from dph.runs.training_digest import what_changed
from dph.runs.unlabelled_prompts import Known, file_prompts
from dph.runs.verifier_use import accepted_grading, comparer, require_same_verifier
from dph.tasks.problems import problems_fingerprint
from dph.tasks.verifiers.base import OneAtATime, Verifier, verifier_identity


def compares_with_initial(recipe: Recipe) -> bool:
    """Whether evaluations during training need the initial policy in addition to the policy."""
    return bool(recipe.evaluate.every and recipe.evaluate.during.compared)


def is_measured(plan: RunPlan) -> bool:
    """Whether the run's last step was measured, or no evaluation is due there."""
    every, last = plan.recipe.evaluate.every, plan.recipe.train.steps
    if not every or last % every:
        return True
    return last in measured_steps(read_progress_file(plan.directory.progress))


@contextmanager
def evaluations(
    plan: RunPlan,
    draw: AnswerSampler,
    policy: PreTrainedModel,
    initial: PreTrainedModel | None,
) -> Iterator[Evaluations | None]:
    """The evaluations of a run that trains ``policy``; None where the recipe asks for none.

    They have verifiers of their own, with their own worker processes, so that answers of training
    never wait for those of an evaluation.
    """
    if not plan.recipe.evaluate.every:
        yield None
        return
    recipe = plan.recipe
    with ExitStack() as stack:
        sets = _sets(plan, draw, stack)
        for chosen in sets:
            parameters = chosen.draw.parameters
            plan.prompts.require_fit(
                policy.config, chosen.problems, max_tokens=parameters.max_tokens
            )
        compared = None
        if initial is not None:
            scorer = scorer_of(
                recipe, plan.prompts.tokenizer, temperature=recipe.evaluate.temperature
            )
            forward = TrainingForward(
                model=policy,
                **asdict(scorer),
                max_tokens=sets[0].draw.parameters.max_tokens,
                reference=initial,
            )
            compared = InitialPolicy(sampler=torch_sampler(plan, initial), forward=forward)
        with Evaluations(
            plan.directory.path,
            sets,
            recipe.evaluate,
            digest=_digest(recipe, sets),
            initial=compared,
            shown=shown_answers(recipe.track),
        ) as measuring:
            yield measuring


def some_problems(
    problems: Sequence[Problem], *, name: str, count: int, seed: int
) -> tuple[Problem, ...]:
    """``count`` problems of a set, in its order: a function of (seed, name, number) alone."""
    if count >= len(problems):
        return tuple(problems)
    order = generator(seed, "problems during training", name).permutation(len(problems))
    return tuple(problems[i] for i in sorted(order[:count]))


def _sets(plan: RunPlan, draw: AnswerSampler, stack: ExitStack) -> list[EvaluationSet]:
    recipe = plan.recipe
    during, data, seed = recipe.evaluate.during, recipe.data, recipe.evaluate.seed
    graders: dict[str, Verifier] = {}
    if recipe.environment.path is not None:  # trajectories are graded while they are drawn
        graders[data.verifier] = plan.verifier
    sets = []
    for name in recipe.evaluate.during_sets(data.sets):
        verifier = data.sets[name].verifier or data.verifier
        if verifier not in graders:
            graders[verifier] = OneAtATime(verifier_maker(recipe)(verifier))
            stack.callback(graders[verifier].close)
        whole = evaluation_set(plan, draw, name, graders[verifier])
        some = some_problems(whole.problems, name=name, count=during.problems, seed=seed)
        sets.append(replace(whole, problems=some))
    return sets


def _digest(recipe: Recipe, sets: Sequence[EvaluationSet]) -> str:
    """Of all that measurements depend on but the policy and the versions of the graders.

    A change of a grader is told, and accepted, by the run's checkpoint.
    """
    settings = recipe.evaluate
    graders = [verifier_identity(chosen.draw.graded_by) for chosen in sets]
    return recipe_digest(
        {
            "sets": [
                {
                    "name": chosen.name,
                    "problems": problems_fingerprint(chosen.problems),
                    "verifier": {key: grader[key] for key in ("name", "settings")},
                    "style": style_name(chosen.draw.style),
                    "parameters": chosen.draw.limits,
                    "prompts": [chosen.draw.encode(problem) for problem in chosen.problems],
                }
                for chosen, grader in zip(sets, graders, strict=True)
            ],
            "samples": settings.during.samples,
            "greedy": settings.during.greedy,
            "compared": settings.during.compared,
            "seed": settings.seed,
        }
    )


@contextmanager
def self_consistency(plan: RunPlan) -> Iterator[SelfConsistency | None]:
    """Prompts and rewards that ``[self_consistency]`` asks for; None where it is off."""
    settings = plan.unlabelled
    if settings is None:
        yield None
        return
    sets = {name: plan.sets[name] for name in plan.recipe.data.sets}
    known = Known(train=plan.problems, sets=sets)
    problems = file_prompts(settings, known)
    with comparer(plan, settings.agreement) as compares:
        yield SelfConsistency(
            problems=problems,
            per_step=settings.problems_per_step,
            comparer=compares,
            seed=plan.recipe.seed,
        )


def require_pools(plan: RunPlan) -> None:
    """Find out that another run's pool is missing before hours of pre-sampling."""
    for anchor in plan.anchors.values():
        if anchor.pool is not None and anchor.pool.resolve() != plan.pool.resolve():
            read_manifest(anchor.pool)


def stored_samples(
    plan: RunPlan, pool: Pool | None, source: Source, *, initial: bool
) -> dict[str, Sequence[RehearsalSample]]:
    """The samples of every anchor of a run, by its name.

    ``source`` is what this run would sample now; ``initial`` says that its weights are still those
    that were sampled.
    """
    stored: dict[str, Sequence[RehearsalSample]] = {}
    loaded: dict[str, Sequence[RehearsalSample]] = {}  # anchors may share one
    for name, anchor in plan.anchors.items():
        if anchor.samples not in loaded:
            loaded[anchor.samples] = _loaded(pool, anchor, source, initial=initial)
        stored[name] = loaded[anchor.samples]
    return stored


def _loaded(
    pool: Pool | None, anchor: AnchorSettings, source: Source, *, initial: bool
) -> Sequence[RehearsalSample]:
    """The samples of the run's pool, or of another run's."""
    if anchor.pool is not None:
        pool = load_pool(anchor.pool)
        require_policy_of(anchor.pool, pool.manifest, source, initial=initial)
    return pool.rehearsal if pool is not None else ()


def train_stage(plan: RunPlan, progress: ProgressDisplay) -> Trained:
    """Train, or go on from the newest checkpoint of the run."""
    recipe, checkpoint = plan.recipe, plan.directory.newest_checkpoint
    done = steps_done(plan)
    if checkpoint is not None and done == recipe.train.steps and is_measured(plan):
        return _ended(Trained(checkpoint=checkpoint, step=done, stopped=False), recipe.evaluate)
    if checkpoint is not None:
        progress.say(f"continuing after step {done} of {recipe.train.steps}")
    trained = _train(plan, progress, checkpoint)
    return _ended(trained, recipe.evaluate)


def _ended(trained: Trained, settings: EvaluationSettings) -> Trained:
    """Training with the checkpoint that is its result; where it was stopped, the newest."""
    if trained.stopped or settings.result == "newest":
        return trained
    best = best_place(trained.checkpoint.parent, score=settings.keep_best)
    if best is None:
        raise CheckpointError(
            f"evaluate.result = 'best', but no checkpoint in {trained.checkpoint.parent} was "
            f"measured by {settings.keep_best!r}: either none of its sets could be graded, or all "
            f"used a different score; set evaluate.result = 'newest'"
        )
    return replace(trained, checkpoint=best)


def _train(plan: RunPlan, progress: ProgressDisplay, checkpoint: Path | None) -> Trained:
    """Train from ``checkpoint``, or from the initial policy where there is none."""
    recipe, initial = plan.recipe, checkpoint is None
    require_pools(plan)
    recipe.self_consistency.require_file()
    policy = load_policy(
        checkpoint or plan.initial, recipe.model, initial=plan.initial, seed=recipe.seed
    )
    unadapted = without_adapter(policy)
    draw = graded_sampler(plan, policy)
    source = pool_source(plan, unadapted)
    pool = _fitting_pool(plan, source, initial=initial)
    problems = _problems(plan, pool)
    plan.prompts.require_fit(policy.config, problems, max_tokens=draw.parameters.max_tokens)
    stored = stored_samples(plan, pool, source, initial=initial)
    before = _initial_policy(plan, unadapted if has_adapter(policy) else None)
    with (
        self_consistency(plan) as unlabelled,
        evaluations(plan, draw, policy, before.for_evaluations) as measuring,
        progress.task(f"training {recipe.method}", recipe.train.steps, "steps") as advance,
    ):
        if unlabelled is not None:
            limit = draw.parameters.max_tokens
            plan.prompts.require_fit(policy.config, unlabelled.problems, max_tokens=limit)

        def start(step: int) -> None:
            note_beginning(recipe, plan.directory.path, done=step)
            advance(step, "")

        warned = False

        def tell(metrics: Metrics) -> None:
            nonlocal warned
            advance(1, _note(metrics))
            warned = warned or warn_of_cut_off(
                progress, metrics["unfinished"], of="a step", max_tokens=draw.parameters.max_tokens
            )

        return train(
            recipe,
            plan.directory.path,
            Actors(
                policy=policy,
                tokenizer=plan.prompts.tokenizer,
                reference=before.for_training,
                draw=draw,
                self_consistency=unlabelled,
                evaluations=measuring,
            ),
            problems,
            stored,
            digest=plan.training_key(),
            loaded=checkpoint,
            on_start=start,
            on_step=tell,
        )


class _InitialPolicy(NamedTuple):
    """The initial policy, loaded once for whoever needs it; with an adapter never."""

    for_training: PreTrainedModel | None
    for_evaluations: PreTrainedModel | None


def _initial_policy(plan: RunPlan, unadapted: PreTrainedModel | None) -> _InitialPolicy:
    recipe = plan.recipe
    trains, compares = (
        recipe.objective.reads_reference(recipe.data.modules),
        compares_with_initial(recipe),
    )
    if not (trains or compares):
        return _InitialPolicy(None, None)
    model = unadapted or load_policy(
        plan.initial, plan.recipe.model, initial=plan.initial
    ).requires_grad_(False)
    return _InitialPolicy(model if trains else None, model if compares else None)


def steps_done(plan: RunPlan) -> int:
    """Steps that the run has done; 0 where there is none."""
    recipe, checkpoint = plan.recipe, plan.directory.newest_checkpoint
    if checkpoint is None:
        return 0
    try:
        done = read_progress(checkpoint, digest=plan.training_key()).step
    except CheckpointError as error:
        changed = what_changed(plan.directory.recipe_file, recipe)
        raise CheckpointError(f"{error} {changed}".rstrip()) from error
    if done > recipe.train.steps:
        raise CheckpointError(
            f"the run in {plan.directory.path} is already at step {done}, but train.steps = "
            f"{recipe.train.steps}: ask for {done} or more, or train into another directory (--out)"
        )
    require_same_verifier(plan, checkpoint, step=done)
    return done


def _note(metrics: Metrics) -> str:
    if not metrics["tokens"]:
        return f"divergence {metrics['divergence']:.4f}"
    note = f"reward {metrics['reward']:.2f}, {metrics['unfinished'] or 0:.0%} cut off"
    styles = metrics["effective_styles"]
    return note if styles is None else f"{note}, styles {styles:.1f}"


def _fitting_pool(plan: RunPlan, expected: Source, *, initial: bool) -> Pool | None:
    if not plan.needs_pool:
        return None
    path = plan.pool
    if not is_made(path):
        raise PoolError(f"there is no pool in {path}; run `dph presample` first")
    pool = load_pool(path)
    if not initial:  # the weights have moved on since; everything else must still fit
        stored = pool.manifest.source.model_fingerprint
        expected = expected.model_copy(update={"model_fingerprint": stored})
    grading = accepted_grading(plan, pool.manifest)
    require_fit(path, pool.manifest, expected, grading, plan.rule)
    train = plan.recipe.train
    require_usable(
        path,
        pool.manifest,
        rehearses=plan.recipe.objective.rehearses_pool,
        explores=plan.recipe.labelled_per_step if train.problems == "exploration" else 0,
    )
    return pool


def _problems(plan: RunPlan, pool: Pool | None) -> Sequence[Problem]:
    if plan.recipe.train.problems == "exploration" and pool is not None:
        return pool.exploration
    return plan.problems
