"""One step's groups: sample, grade, and with dynamic sampling draw more until there is signal.

Prompts without labels have no gold answer: an answer is rewarded for agreeing with others to its
prompt. TTRL (arXiv:2504.16084, section 2) rewards the answers that equal the majority of the group
by 1, and the others by 0. TTRL votes among more samples than it trains on; here the group votes for
itself.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

from dph._base.randomness import derived_seed, generator
from dph.errors import TrainingError
from dph.model.sampler.episodes import AnswerSampler
from dph.model.sampler.graded import Rollout
from dph.recipe import ObjectiveSettings, TrainingSettings
from dph.records import UNGRADED, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.prompts import require_unlabelled
from dph.runs.train.rows import Position, next_problems
from dph.tasks.agreement import Comparer, largest_class


class NoSignalError(TrainingError):
    """No group of a step can be learnt from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The graded completions of one problem."""

    prompt_ids: tuple[int, ...]
    completions: tuple[GradedCompletion, ...]
    labelled: bool = True

    @property
    def gradable(self) -> bool:
        """True if every completion could be compared with the gold answer."""
        return all(g.verdict.outcome is not Outcome.BAD_GOLD for g in self.completions)

    @property
    def graded(self) -> tuple[bool, ...]:
        """For each completion, whether its reward counts."""
        return tuple(self.gradable and g.verdict.outcome not in UNGRADED for g in self.completions)

    @property
    def has_signal(self) -> bool:
        """True if the rewards of the graded completions differ."""
        return len({g.verdict.reward for g in compress(self.completions, self.graded)}) > 1


_NO_RESULT = Verdict(
    outcome=Outcome.NO_ANSWER, reward=0.0, reason="no result to compare with those of other answers"
)
_AGREES = Verdict(outcome=Outcome.CORRECT, reward=1.0)
_DIFFERS = Verdict(outcome=Outcome.WRONG, reward=0.0, reason="agrees with a share of 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfConsistency:
    """Unlabelled prompts, ``per_step`` of them in a step, and the comparer of their answers."""

    problems: Sequence[Problem]
    per_step: int
    comparer: Comparer
    seed: int

    def __post_init__(self) -> None:
        require_unlabelled(self.problems, per_step=self.per_step)

    def of_step(self, step: int) -> list[Problem]:
        """The prompts of a step, counted from 1: a function of (seed, step).

        Every pass over the prompts has its own shuffle; a tail shorter than a step's share is left
        out, so that no prompt comes twice in a step.
        """
        epoch, block = divmod(step - 1, len(self.problems) // self.per_step)
        order = generator(self.seed, "unlabelled", epoch).permutation(len(self.problems))
        start = block * self.per_step
        return [self.problems[i] for i in order[start : start + self.per_step]]

    def roll_out(self, draw: AnswerSampler, step: int, *, samples: int) -> Rollout:
        """The step's prompts with answers, which have the verdicts of agreement."""
        started = time.perf_counter()
        problems = self.of_step(step)
        seed = derived_seed(self.seed, "unlabelled rollout", step)
        drawn = draw.ungraded(problems, samples=samples, seed=seed)
        sampled = time.perf_counter()
        verdicts = self.verdicts(problems, [[c.answer for c in group] for group in drawn.groups])
        groups = tuple(
            tuple(
                GradedCompletion(
                    completion=completion,
                    verdict=known if known and completion.answer is None else agreed,
                    style=style,
                )
                for completion, agreed, known, style in zip(*each, strict=True)
            )
            for each in zip(drawn.groups, verdicts, drawn.verdicts, drawn.styles, strict=True)
        )
        return Rollout(
            problems=tuple(problems),
            prompts=drawn.prompts,
            groups=groups,
            sampling_seconds=sampled - started,
            grading_seconds=time.perf_counter() - sampled,
        )

    def verdicts(
        self, problems: Sequence[Problem], texts: Sequence[Sequence[str | None]]
    ) -> list[list[Verdict]]:
        """A verdict for each answer; CORRECT means that it earns the whole reward, no more."""
        found = []
        for classes in self.comparer.classes(problems, texts):
            agreed = {largest_class(classes): _AGREES, None: _NO_RESULT}
            found.append([agreed.get(number, _DIFFERS) for number in classes])
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The groups to learn from, all that were ``drawn`` for them, and the cost."""

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
    """Draw the groups of one step; those of ``unlabelled`` come last.

    A group whose gold answer cannot be graded is left out; if none remains, more are drawn.
    With dynamic sampling (DAPO, arXiv:2503.14476, section 3.2) groups whose rewards are all equal
    are left out and more problems are drawn, at most ``max_refills`` times. If some groups hold
    signal then but fewer than the step should have, it takes those.
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
        state, groups = _added(state, rollout, position)
        kept += [g for g in groups if (g.has_signal if objective.dynamic_sampling else g.gradable)]
        if kept and not objective.dynamic_sampling:
            break
    if wanted and not kept:
        raise NoSignalError(f"step {step}: {_why_nothing_is_left(state)}")
    kept = kept[:wanted]
    if unlabelled is not None:
        rollout = unlabelled.roll_out(draw, step, samples=train.samples_per_problem)
        state, groups = _added(state, rollout, state.position, labelled=False)
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


def _added(
    state: Collected, rollout: Rollout, position: Position, *, labelled: bool = True
) -> tuple[Collected, tuple[Group, ...]]:
    groups = tuple(
        Group(prompt_ids=prompt, completions=group, labelled=labelled)
        for prompt, group in zip(rollout.prompts, rollout.groups, strict=True)
    )
    state = replace(
        state,
        drawn=state.drawn + groups,
        position=position,
        refills=state.refills + labelled,
        sampling_seconds=state.sampling_seconds + rollout.sampling_seconds,
        grading_seconds=state.grading_seconds + rollout.grading_seconds,
    )
    return state, groups


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
"""The first thing to check if every answer has this outcome."""


def uniform_outcomes(groups: Sequence[Group]) -> str | None:
    """Message for groups without two outcomes or two rewards; None if one has them.

    Unlabelled groups do not count. Partial rewards within one outcome do: there is something to
    learn from them.
    """
    graded = [[g.verdict for g in group.completions] for group in groups if group.labelled]
    if not graded or any(len({(v.outcome, v.reward) for v in group}) > 1 for group in graded):
        return None
    counts = Counter(verdict.outcome for group in graded for verdict in group)
    if len(counts) == 1:
        (outcome, amount), *_ = counts.items()
        return f"all {amount} answers are {outcome.value}: {_LIKELY[outcome]}"
    several = ", ".join(f"{amount} {outcome.value}" for outcome, amount in counts.most_common())
    return (
        f"in every group all answers have the same outcome and reward ({several}): there is "
        "nothing to learn from"
    )
