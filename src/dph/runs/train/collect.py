"""One step's groups: sample, grade, and with dynamic sampling draw more until there is signal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dph._base.randomness import derived_seed
from dph.errors import TrainingError
from dph.model.sampler.episodes import AnswerSampler
from dph.model.sampler.graded import Rollout
from dph.recipe import ObjectiveSettings, TrainingSettings
from dph.records import UNGRADED, GradedCompletion, Outcome, Problem
from dph.runs.train.rows import Position, next_problems
from dph.runs.train.self_consistency import SelfConsistency


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The graded completions of one problem; an unlabelled one's are rewarded for agreeing."""

    prompt_ids: tuple[int, ...]
    completions: tuple[GradedCompletion, ...]
    labelled: bool = True

    @property
    def gradable(self) -> bool:
        """Whether the gold answer could be graded against, each time."""
        return all(g.verdict.outcome is not Outcome.BAD_GOLD for g in self.completions)

    @property
    def graded(self) -> tuple[bool, ...]:
        """For each completion whether its reward says something about it."""
        return tuple(self.gradable and g.verdict.outcome not in UNGRADED for g in self.completions)

    @property
    def has_signal(self) -> bool:
        """Whether the rewards of what could be graded differ."""
        rewards = {
            g.verdict.reward
            for g, graded in zip(self.completions, self.graded, strict=True)
            if graded
        }
        return len(rewards) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The groups to learn from, everything that was drawn for them, and the cost.

    Groups whose gold answer could not be graded are among ``drawn`` alone.
    """

    groups: tuple[Group, ...]
    drawn: tuple[Group, ...]
    position: Position
    refills: int
    sampling_seconds: float
    grading_seconds: float


def collect(
    problems: Sequence[Problem],
    draw: AnswerSampler,
    position: Position,
    *,
    step: int,
    seed: int,
    train: TrainingSettings,
    objective: ObjectiveSettings,
    unlabelled: SelfConsistency | None = None,
) -> Collected:
    """Draw the groups of one step.

    ``unlabelled`` brings its share of them, drawn once, after those of ``problems``.

    A group whose gold answer cannot be graded is left out; where none remains, more are drawn.
    With dynamic sampling (DAPO, arXiv:2503.14476, section 3.2) groups whose rewards are all equal
    are set aside and more problems are drawn, at most ``max_refills`` times. If some groups hold
    signal then but fewer than asked for, the step goes on with those.
    """
    wanted = train.problems_per_step - (unlabelled.per_step if unlabelled else 0)
    kept: list[Group] = []
    state = Collected(
        groups=(), drawn=(), position=position, refills=-1, sampling_seconds=0, grading_seconds=0
    )
    while len(kept) < wanted and state.refills < objective.max_refills:
        # A refill of a few problems costs nearly as much as one of a quarter of the batch.
        count = wanted if not kept else max(wanted - len(kept), -(-wanted // 4))
        chosen, position = next_problems(problems, count, state.position, seed=seed)
        rollout = draw(
            chosen,
            samples=train.samples_per_problem,
            seed=derived_seed(seed, "rollout", step, state.refills + 1),
        )
        groups = _groups(rollout)
        state = _add(state, rollout, groups, position)
        kept += [g for g in groups if (g.has_signal if objective.dynamic_sampling else g.gradable)]
        if kept and not objective.dynamic_sampling:
            break
    if wanted and not kept:
        raise TrainingError(f"step {step}: {_why_nothing_is_left(state)}")
    kept = kept[:wanted]
    if unlabelled is not None:
        rollout = unlabelled.roll_out(draw, step, samples=train.samples_per_problem)
        groups = _groups(rollout, labelled=False)
        state = replace(_add(state, rollout, groups, state.position), refills=state.refills)
        kept += [g for g in groups if g.has_signal or not objective.dynamic_sampling]
    return replace(state, groups=tuple(kept), refills=max(state.refills, 0))


def _why_nothing_is_left(state: Collected) -> str:
    drawn = len(state.drawn)
    bad = [g.verdict for group in state.drawn for g in group.completions]
    reasons = [v.reason for v in bad if v.outcome is Outcome.BAD_GOLD]
    if not any(group.gradable for group in state.drawn):
        return f"no gold answer of {drawn} groups can be graded, for example: {reasons[0]}"
    return (
        f"none of {drawn} groups holds both right and wrong answers after {state.refills} refills "
        "(objective.max_refills); the problems are too easy or too hard for this model"
    )


def _groups(rollout: Rollout, *, labelled: bool = True) -> tuple[Group, ...]:
    return tuple(
        Group(prompt_ids=prompt, completions=group, labelled=labelled)
        for prompt, group in zip(rollout.prompts, rollout.groups, strict=True)
    )


def _add(
    state: Collected, rollout: Rollout, groups: tuple[Group, ...], position: Position
) -> Collected:
    return replace(
        state,
        drawn=state.drawn + groups,
        position=position,
        refills=state.refills + 1,
        sampling_seconds=state.sampling_seconds + rollout.sampling_seconds,
        grading_seconds=state.grading_seconds + rollout.grading_seconds,
    )


_LIKELY = {
    Outcome.CORRECT: "does the verifier tell right from wrong, and are the problems hard enough?",
    Outcome.WRONG: "does the verifier accept right answers, and are the problems easy enough?",
    Outcome.NO_ANSWER: "does the prompt ask for answers in the form that the verifier looks for?",
    Outcome.INVALID: "does the prompt ask for answers in the form that the verifier looks for?",
    Outcome.TIMED_OUT: "the verifier may need longer than data.verifier_timeout",
    Outcome.OVER_LIMIT: "the answers exceed the limits of the verifier",
    Outcome.CUT_OFF: "the answers may need more tokens than sampling.max_tokens",
    Outcome.BAD_GOLD: "the gold answers, or the paths of their databases, are wrong",
    Outcome.CRASHED: "the verifier is broken: the reasons are tracebacks",
}
"""Advice on the first place to look, by the outcome that everything had."""


def uniform_outcomes(groups: Sequence[Group]) -> str | None:
    """Message for groups without two outcomes or two rewards; None where one has them.

    Unlabelled groups are none of them: nobody graded those.
    Partial rewards within one outcome are something to learn from, so they count as different.
    """
    groups = [group for group in groups if group.labelled]
    if not groups or any(len(_ends(group)) > 1 for group in groups):
        return None
    counts = Counter(g.verdict.outcome for group in groups for g in group.completions)
    if len(counts) == 1:
        (outcome, amount), *_ = counts.items()
        return f"all {amount} answers are {outcome.value}: {_LIKELY[outcome]}"
    several = ", ".join(f"{amount} {outcome.value}" for outcome, amount in counts.most_common())
    return (
        f"in every group all answers have the same outcome and reward ({several}): there is "
        "nothing to learn from"
    )


def _ends(group: Group) -> set[tuple[Outcome, float]]:
    return {(g.verdict.outcome, g.verdict.reward) for g in group.completions}
