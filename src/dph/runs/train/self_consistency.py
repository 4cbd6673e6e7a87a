"""RL on prompts without labels: an answer is rewarded for agreeing with others to its prompt.

**Source**: "majority" is TTRL's reward (arXiv:2504.16084, section 2): 1 for the answers that equal
the majority of the group, 0 for the others. TTRL votes among more samples than it trains on; here
the group votes for itself. "consensus" is this package's own: the share of stored answers of the
initial policy that agree, a reward that cannot drift with the policy.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dph._base.randomness import derived_seed, generator
from dph.model.sampler.episodes import AnswerSampler
from dph.model.sampler.graded import Rollout
from dph.records import GradedCompletion, Outcome, Problem, Verdict
from dph.runs.presample.stores.prompts import require_unlabelled
from dph.tasks.agreement import Classes, Comparer, largest_class

_NO_RESULT = Verdict(
    outcome=Outcome.NO_ANSWER, reward=0.0, reason="no result to compare with those of other answers"
)


@dataclass(frozen=True, slots=True)
class Consensus:
    """The classes of the stored answers to a prompt.

    ``answers`` counts all of them, those without a class, too.
    """

    representatives: tuple[str, ...]
    sizes: tuple[int, ...]
    answers: int


def consensus_of(texts: Sequence[str | None], classes: Classes) -> Consensus:
    """The consensus of stored answers: a text for each class, the largest class first.

    >>> consensus_of(["a", "b", "A", None], (0, 1, 0, None))
    Consensus(representatives=('a', 'b'), sizes=(2, 1), answers=4)
    """
    sizes = Counter(number for number in classes if number is not None)
    ordered = [number for number, _ in sizes.most_common()]
    return Consensus(
        tuple(str(texts[classes.index(number)]) for number in ordered),
        tuple(sizes[number] for number in ordered),
        len(texts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfConsistency:
    """Unlabelled prompts and the reward of answers to them.

    Attributes:
        problems: the prompts.
        per_step: how many of them a step has.
        comparer: says which answers agree.
        consensus: of stored answers, by the prompt's id; None rewards the group's own majority.
        seed: of the run.
    """

    problems: Sequence[Problem]
    per_step: int
    comparer: Comparer
    consensus: Mapping[str, Consensus] | None
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
        """Groups of the step's prompts with the verdicts of agreement.

        Raises:
            DataError: a prompt lacks what is needed to compare answers to it.
            VerifierError: who compares is broken.
        """
        started = time.perf_counter()
        problems = self.of_step(step)
        seed = derived_seed(self.seed, "unlabelled rollout", step)
        drawn = draw.ungraded(problems, samples=samples, seed=seed)
        sampled = time.perf_counter()
        texts = [tuple(c.answer for c in group) for group in drawn.groups]
        styles = drawn.styles or [
            [draw.style(c.text) if draw.style else None for c in group] for group in drawn.groups
        ]
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
            for each in zip(drawn.groups, verdicts, drawn.verdicts, styles, strict=True)
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
        if self.consensus is None:
            found = self.comparer.classes(problems, texts)
            return [_majority_verdicts(classes) for classes in found]
        known = [self.consensus[problem.problem_id] for problem in problems]
        both = [
            [*consensus.representatives, *group]
            for consensus, group in zip(known, texts, strict=True)
        ]
        found = self.comparer.classes(problems, both)
        return [
            _consensus_verdicts(consensus, classes)
            for consensus, classes in zip(known, found, strict=True)
        ]


def _majority_verdicts(classes: Classes) -> list[Verdict]:
    largest = largest_class(classes)
    return [_verdict(number, float(number == largest)) for number in classes]


def _consensus_verdicts(consensus: Consensus, classes: Classes) -> list[Verdict]:
    """The representatives stand first among the classes; the share of each is its class's."""
    count = len(consensus.representatives)
    shares: dict[int | None, float] = {}
    for number, size in zip(classes[:count], consensus.sizes, strict=True):
        shares[number] = shares.get(number, 0.0) + size / consensus.answers
    return [_verdict(number, shares.get(number, 0.0)) for number in classes[count:]]


def _verdict(number: int | None, reward: float) -> Verdict:
    if number is None:
        return _NO_RESULT
    outcome = Outcome.CORRECT if reward == 1.0 else Outcome.WRONG
    reason = "" if reward == 1.0 else f"agrees with a share of {reward:g}"
    return Verdict(outcome=outcome, reward=reward, reason=reason)
