"""Parts that evaluate a run while it trains."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace

from transformers import PreTrainedModel

from dph._base.randomness import generator
from dph.model.sampler.episodes import AnswerSampler
from dph.recipe import Recipe, recipe_digest
from dph.records import Problem
from dph.runs.drawing import scorer_of, torch_sampler
from dph.runs.evaluate.evaluate import EvaluationSet, style_name
from dph.runs.evaluate.progress_file import measured_steps, read_progress_file
from dph.runs.evaluation_stage import evaluation_set
from dph.runs.plan import RunPlan
from dph.runs.task import verifier_maker
from dph.runs.train.evaluations import Evaluations, InitialPolicy
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.tracking import shown_answers
from dph.tasks.problems import problems_fingerprint
from dph.tasks.verifiers.base import OneAtATime, Verifier, verifier_identity


def compares_with_initial(recipe: Recipe) -> bool:
    """Whether evaluations during training need the initial policy in addition to the policy."""
    return bool(recipe.evaluate.every and recipe.evaluate.during.compared)


def is_measured(plan: RunPlan) -> bool:
    """Whether the run's last step was measured, or no evaluation is due there.

    Raises:
        DataError: what was measured is damaged.
    """
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

    Raises:
        DataError: a set is missing or malformed, or a prompt of it is empty.
        SettingsError: a prompt of a set does not fit the model's context.
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
                    "parameters": asdict(chosen.draw.parameters),
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
