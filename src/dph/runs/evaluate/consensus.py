"""Worth of agreement: how often answers agree, and how often on a right result.

A consensus is the result that most answers to a prompt have, where two or more have it; of equal
ones the first that was drawn. Counted are answers, or different texts (``values = "distinct"`` of
a store): a result that a model only ever writes in one way has one witness.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from dph.runs.evaluate.intervals import bootstrap_mean, paired_difference
from dph.tasks.agreement import Classes, consensus_class


class Worth(StrEnum):
    """Agreement of a model's answers."""

    ABOVE = "above greedy"
    """The whole interval of the difference to the greedy answer is above 0."""
    NOT_ABOVE = "not above greedy"
    ONE_TEXT = "one text a result"
    """Different texts are counted, and answers that agree are the same text."""
    NONE = "no consensus"


COUNTED = ("answers", "texts")
_HARDLY = 0.05
"""Share of prompts below which a consensus is too rare to change a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answers to one prompt: which agree, and their texts."""

    classes: Classes
    texts: Sequence[str]

    def consensus(self, counted: str) -> int | None:
        """The class that most ``answers``, or most different ``texts``, are of."""
        voters = self.texts if counted == "texts" else range(len(self.texts))
        return consensus_class(self.classes, voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Answered):
    """The same with what a gold answer says: of the greedy answer, and of each of the others."""

    greedy: bool
    right: Sequence[bool]

    def consensus_is_right(self, counted: str) -> bool | None:
        """Whether its first answer is; None where there is no consensus."""
        found = self.consensus(counted)
        return None if found is None else self.right[self.classes.index(found)]


def worth_of_agreement(
    labelled: Mapping[str, Any], shares: Mapping[str, Any], *, counted: str
) -> Worth:
    """The verdict on ``consensus_accuracy`` and, of unlabelled prompts, ``agreement_shares``."""
    if shares[counted]["mean"] < _HARDLY:
        agree = shares["answers"]["mean"] >= _HARDLY
        return Worth.ONE_TEXT if agree else Worth.NONE
    difference = labelled[counted]["difference"]
    above = difference is not None and difference["lo"] > 0
    return Worth.ABOVE if above else Worth.NOT_ABOVE


def agreement_shares(groups: Sequence[Answered], *, seed: int) -> dict[str, Any]:
    """Share of the prompts with a consensus, for each way of counting."""
    return {
        counted: _mean([one.consensus(counted) is not None for one in groups], seed)
        for counted in COUNTED
    }


def consensus_accuracy(groups: Sequence[Labelled], *, seed: int) -> dict[str, Any]:
    """Accuracy of the consensus against that of the greedy answer, for each way of counting.

    Intervals are those of a bootstrap over prompts (95%). ``difference`` is paired: consensus minus
    greedy over the prompts with a consensus. None where no prompt has one.
    """
    return {
        "prompts": len(groups),
        "greedy": _mean([one.greedy for one in groups], seed),
        "sampled": _mean([float(np.mean(one.right)) for one in groups], seed),
        **{counted: _against_greedy(groups, counted, seed) for counted in COUNTED},
    }


def _against_greedy(groups: Sequence[Labelled], counted: str, seed: int) -> dict[str, Any]:
    told = [
        (one, right) for one in groups if (right := one.consensus_is_right(counted)) is not None
    ]
    accuracy = np.array([right for _, right in told], dtype=np.float64)
    greedy = np.array([one.greedy for one, _ in told], dtype=np.float64)
    difference = None
    if told:
        found = paired_difference(accuracy, greedy, seed=seed)
        difference = {"mean": found.mean, "lo": found.lo, "hi": found.hi}
    return {
        "share": _mean([one.consensus(counted) is not None for one in groups], seed),
        "prompts": len(told),
        "accuracy": _mean(accuracy, seed),
        "greedy": _mean(greedy, seed),
        "difference": difference,
    }


def _mean(values: Sequence[float] | np.ndarray, seed: int) -> dict[str, float] | None:
    if not len(values):
        return None
    numbers = np.asarray(values, dtype=np.float64)
    lo, hi = bootstrap_mean(numbers, seed=seed)
    return {"mean": float(numbers.mean()), "lo": lo, "hi": hi}
