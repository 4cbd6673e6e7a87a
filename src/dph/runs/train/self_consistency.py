"""RL on prompts without labels: an answer is rewarded for agreeing with others to its prompt.

**Source**: TTRL (arXiv:2504.16084, section 2) rewards the answers that equal the majority of the
group by 1, and the others by 0. TTRL votes among more samples than it trains on; here the group
votes for itself.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dph._base.randomness import derived_seed, generator
from dph.model.sampler.episodes import AnswerSampler
from dph.model.sampler.graded import Rollout
from dph.records import GradedCompletion, Outcome, Problem, Verdict
from dph.runs.unlabelled_prompts import require_unlabelled
from dph.tasks.agreement import Classes, Comparer, largest_class

_NO_RESULT = Verdict(
    outcome=Outcome.NO_ANSWER, reward=0.0, reason="no result to compare with those of other answers"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfConsistency:
    """Unlabelled prompts and the reward of answers to them.

    Attributes:
        problems: the prompts.
        per_step: how many of them a step has.
        comparer: says which answers agree.
        seed: of the run.
    """

    problems: Sequence[Problem]
    per_step: int
    comparer: Comparer
    seed: int

    def __post_init__(self) -> None:
        require_unlabelled(self.problems, per_step=self.per_step)

    def of_step(self, step: int) -> list[Problem]:
        """The prompts of a step, counted from 1: a function of (seed, step) alone.

        Every pass over the prompts has its own shuffle; a tail shorter than a step's share is left
        out, so that no prompt comes twice in a step.
        """
        epoch, block = divmod(step - 1, len(self.problems) // self.per_step)
        order = generator(self.seed, "unlabelled", epoch).permutation(len(self.problems))
        start = block * self.per_step
        return [self.problems[i] for i in order[start : start + self.per_step]]

    def roll_out(self, draw: AnswerSampler, step: int, *, samples: int) -> Rollout:
        """Groups of the step's prompts with the verdicts of agreement."""
        started = time.perf_counter()
        problems = self.of_step(step)
        seed = derived_seed(self.seed, "unlabelled rollout", step)
        drawn = draw.ungraded(problems, samples=samples, seed=seed)
        sampled = time.perf_counter()
        texts = [tuple(c.answer for c in group) for group in drawn.groups]
        verdicts = self.verdicts(problems, texts)
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
        return [_verdicts(classes) for classes in self.comparer.classes(problems, texts)]


def _verdicts(classes: Classes) -> list[Verdict]:
    largest = largest_class(classes)
    return [_verdict(number, agrees=number == largest) for number in classes]


def _verdict(number: int | None, *, agrees: bool) -> Verdict:
    if number is None:
        return _NO_RESULT
    if agrees:
        return Verdict(outcome=Outcome.CORRECT, reward=1.0)
    return Verdict(outcome=Outcome.WRONG, reward=0.0, reason="agrees with a share of 0")
