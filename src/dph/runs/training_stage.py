"""The training stage of a run: from the pool, or from all problems, to a checkpoint."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from transformers import PreTrainedModel

from dph._base.randomness import generator
from dph.errors import CheckpointError
from dph.model.policies import has_adapter
from dph.model.sampler.episodes import AnswerSampler
from dph.recipe import EvaluationSettings, Recipe, recipe_digest
from dph.records import Problem
from dph.runs.answers import graded_sampler, scorer_of, torch_sampler, verifier_maker
from dph.runs.directory import best_place, note_beginning
from dph.runs.evaluate.evaluate import EvaluationSet, described
from dph.runs.evaluation_stage import evaluation_set
from dph.runs.job import RunJob
from dph.runs.prepare import accepted_grading, note_accepted_verifier
from dph.runs.presample.manifest import Source, require_fit, require_policy, require_usable
from dph.runs.presample.pool import load_pool
from dph.runs.presample.tables import RehearsalSample
from dph.runs.presampling_stage import pool_source
from dph.runs.progress import ProgressDisplay, warn_of_cut_off, warn_of_slow_grading
from dph.runs.train.evaluations import Evaluations, InitialPolicy
from dph.runs.train.loop import Actors, Trained, train
from dph.runs.train.rows import require_lengths
from dph.runs.train.tracking import Metrics, shown_answers
from dph.runs.train.updating import TrainingForward
from dph.tasks.verifiers.base import OneAtATime, Verifier


def _evaluations(
    job: RunJob,
    draw: AnswerSampler,
    policy: PreTrainedModel,
    initial: PreTrainedModel | None,
    stack: ExitStack,
) -> Evaluations:
    """The evaluations of a run that trains ``policy``.

    They have separate verifiers with worker processes, so that answers of training never wait for
    those of an evaluation.
    """
    recipe = job.recipe
    sets = _sets(job, draw, stack)
    for chosen in sets:
        most = chosen.draw.parameters.max_tokens
        job.prompts.require_fit(policy.config, chosen.problems, max_tokens=most)
    compared = None
    if initial is not None:
        temperature = recipe.evaluate.temperature
        forward = TrainingForward(
            model=policy,
            **asdict(scorer_of(recipe, job.prompts.tokenizer, temperature=temperature)),
            max_tokens=sets[0].draw.parameters.max_tokens,
            reference=initial,
        )
        compared = InitialPolicy(sampler=torch_sampler(job, initial), forward=forward)
    measuring = Evaluations(
        job.directory.path,
        sets,
        recipe.evaluate,
        digest=_digest(recipe, sets),
        initial=compared,
        shown=shown_answers(recipe.track),
    )
    return stack.enter_context(measuring)


def some_problems(
    problems: Sequence[Problem], *, name: str, count: int, seed: int
) -> tuple[Problem, ...]:
    """``count`` problems of a set, in its order: a function of (seed, name, number)."""
    if count >= len(problems):
        return tuple(problems)
    order = generator(seed, "problems during training", name).permutation(len(problems))
    return tuple(problems[i] for i in sorted(order[:count]))


def _sets(job: RunJob, draw: AnswerSampler, stack: ExitStack) -> list[EvaluationSet]:
    recipe = job.recipe
    during, data, seed = recipe.evaluate.during, recipe.data, recipe.evaluate.seed
    graders: dict[str, Verifier] = {}
    if recipe.environment.path is not None:  # trajectories are graded while they are drawn
        graders[data.verifier] = job.verifier
    sets = []
    for name in recipe.evaluate.during_sets(data.sets):
        verifier = data.sets[name].verifier or data.verifier
        if verifier not in graders:
            graders[verifier] = OneAtATime(verifier_maker(recipe)(verifier))
            stack.callback(graders[verifier].close)
        chosen = job.sets[name]
        some = some_problems(chosen.problems, name=name, count=during.problems, seed=seed)
        own = replace(chosen, problems=some, verifier=graders[verifier])
        sets.append(evaluation_set(job, draw, own))
    return sets


def _digest(recipe: Recipe, sets: Sequence[EvaluationSet]) -> str:
    """Digest of everything but the policy and the verifiers' versions that decides measurements.

    A changed version is refused or accepted by the run's checkpoint.
    """
    settings, told = recipe.evaluate, list(map(described, sets))
    for one in told:
        one["verifier"] = {key: one["verifier"][key] for key in ("name", "settings")}
    return recipe_digest(
        {
            "sets": told,
            "samples": settings.during.samples,
            "greedy": settings.during.greedy,
            "compared": settings.during.compared,
            "seed": settings.seed,
        }
    )


def _read_pools(
    job: RunJob, source: Source, *, initial: bool
) -> tuple[Sequence[Problem], dict[str, Sequence[RehearsalSample]]]:
    """The problems to explore, and the samples of every anchor by its name.

    ``source`` is what this run would sample now; ``initial``: its weights are still those that
    were sampled.
    """
    train, anchors = job.recipe.train, job.recipe.objective.active_anchors
    problems: Sequence[Problem] = job.problems
    loaded: dict[Path | None, Sequence[RehearsalSample]] = {None: ()}
    if job.needs_pool:
        pool, expected = load_pool(job.pool), source
        if not initial:  # everything but the weights must still fit
            stored = pool.manifest.source.model_fingerprint
            expected = expected.model_copy(update={"model_fingerprint": stored})
        require_fit(
            job.pool, pool.manifest, expected, accepted_grading(job, pool.manifest), job.rule
        )
        explores = train.problems == "exploration"
        require_usable(
            job.pool,
            pool.manifest,
            rehearses=job.recipe.objective.rehearses_pool,
            explores=job.recipe.labelled_per_step if explores else 0,
        )
        loaded[None] = pool.rehearsal
        if explores:
            problems = pool.exploration
    for anchor in anchors.values():
        if (place := anchor.pool) is not None and place not in loaded:  # anchors may share one
            other = load_pool(place)
            require_policy(
                place,
                other.manifest,
                tokenizer_fingerprint=source.tokenizer_fingerprint,
                temperature=source.temperature,
                dtype=source.dtype,
                model_fingerprint=source.model_fingerprint if initial else None,
            )
            loaded[place] = other.rehearsal
            reduction, most = job.recipe.objective.reduction, job.recipe.answer_tokens
            require_lengths(other.rehearsal, reduction=reduction, most=most, place=place)
    return problems, {name: loaded[anchor.pool] for name, anchor in anchors.items()}


def train_stage(job: RunJob, progress: ProgressDisplay) -> Trained:
    """Train, or continue from the newest checkpoint of the run."""
    settings, checkpoint, done = job.recipe.evaluate, job.resumed.checkpoint, job.resumed.step
    note_accepted_verifier(job)
    if checkpoint is not None and job.resumed.finished:
        return _ended(Trained(checkpoint=checkpoint, step=done, stopped=False), settings)
    if checkpoint is not None:
        progress.say(f"continuing after step {done} of {job.recipe.train.steps}")
    return _ended(_train(job, progress), settings)


def _ended(trained: Trained, settings: EvaluationSettings) -> Trained:
    """Training with the checkpoint that is its result; the newest if it was stopped."""
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


def _train(job: RunJob, progress: ProgressDisplay) -> Trained:
    """Train from the newest checkpoint, or from the initial policy if there is none."""
    recipe, checkpoint = job.recipe, job.resumed.checkpoint
    trains = recipe.objective.reads_reference(recipe.data.modules)
    compares = bool(recipe.evaluate.every and recipe.evaluate.during.compared)
    policy = job.policies.trained(checkpoint, seed=recipe.seed, with_initial=trains or compares)
    initial = job.policies.initial().requires_grad_(False) if trains or compares else None
    draw = graded_sampler(job, policy)
    source = pool_source(job, job.policies.initial() if has_adapter(policy) else policy)
    problems, stored = _read_pools(job, source, initial=checkpoint is None)
    with ExitStack() as stack:
        measuring = None
        if recipe.evaluate.every:
            measuring = _evaluations(job, draw, policy, initial if compares else None, stack)
        task = progress.task(f"training {recipe.method}", recipe.train.steps, "steps")
        advance = stack.enter_context(task)

        def start(step: int) -> None:
            note_beginning(recipe, job.directory.path, done=step)
            advance(step, "")

        cut_off = slow = False

        def tell(metrics: Metrics) -> None:
            nonlocal cut_off, slow
            advance(1, _note(metrics))
            cut_off = cut_off or warn_of_cut_off(
                progress, metrics["unfinished"], of="a step", max_tokens=draw.parameters.max_tokens
            )
            slow = slow or warn_of_slow_grading(
                progress,
                metrics["seconds_grading"] or 0.0,
                metrics["seconds"] or 0.0,
                workers=recipe.data.verifier_workers,
            )

        return train(
            recipe,
            job.directory.path,
            Actors(
                policy=policy,
                tokenizer=job.prompts.tokenizer,
                reference=initial if trains else None,
                draw=draw,
                self_consistency=job.self_consistency,
                evaluations=measuring,
            ),
            problems,
            stored,
            digest=job.training_key(),
            loaded=checkpoint,
            on_start=start,
            on_step=tell,
        )


def _note(metrics: Metrics) -> str:
    if not metrics["tokens"]:
        return f"divergence {metrics['divergence']:.4f}"
    note = f"reward {metrics['reward']:.2f}, {metrics['unfinished'] or 0:.0%} cut off"
    styles = metrics["effective_styles"]
    return note if styles is None else f"{note}, styles {styles:.1f}"
