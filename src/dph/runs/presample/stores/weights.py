"""Weight of each stored answer: the choices of ``stores.<name>.values``, one function each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dph._base.randomness import generator
from dph.runs.presample.stores.values import Valued, distinct_agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuedAnswers:
    """The answers to one prompt: what they come to, their texts, and the seed that drew them."""

    problem_id: str
    values: Sequence[Valued]
    texts: Sequence[str]
    seed: int


def majority_vote(classes: Sequence[int | None]) -> list[float]:
    """1 for every answer of the largest class, 0 for all others: a hard vote.

    Of several classes of that size all win: which of them was drawn first depends on the seed and
    says nothing. A class of one is no majority, as an answer alone has agreement 0: where no two
    agree, nobody wins. An answer without a class votes for nothing.

    **Source**: self-consistency's vote (arXiv:2203.11171), which LMSI learns from
    (arXiv:2210.11610). Neither says what a tie is worth.

    >>> majority_vote([0, 1, 1, None]), majority_vote([0, 0, 1, 1, 2]), majority_vote([0, 1])
    ([0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0])
    """
    sizes = Counter[int | None](own for own in classes if own is not None)  # None has size 0
    largest = max(sizes.values(), default=0)
    return [float(1 < sizes[own] == largest) for own in classes]


def shuffled(weights: Sequence[float], *, seed: int, problem_id: str) -> list[float]:
    """The same weights, each at another answer to the prompt: a control that knows nothing.

    The order is a function of (``seed``, ``problem_id``) and the number of answers alone.
    """
    order = generator(seed, "shuffled values", problem_id).permutation(len(weights))
    return [weights[place] for place in order]


def _agreement(answers: ValuedAnswers) -> list[float]:
    return [float(value.agreement or 0.0) for value in answers.values]


def _distinct(answers: ValuedAnswers) -> list[float]:
    return distinct_agreement(_classes(answers), answers.texts)


def _correct(answers: ValuedAnswers) -> list[float]:
    return [float(value.correct or 0) for value in answers.values]


def _classes(answers: ValuedAnswers) -> list[int | None]:
    return [value.answer_class for value in answers.values]


def _shuffled(weigh: Callable[[ValuedAnswers], list[float]]) -> Callable[..., list[float]]:
    return lambda own: shuffled(weigh(own), seed=own.seed, problem_id=own.problem_id)


WEIGHTS: Mapping[str, Callable[[ValuedAnswers], list[float]]] = {
    "agreement": _agreement,
    "distinct": _distinct,
    "majority": lambda answers: majority_vote(_classes(answers)),
    "shuffled": _shuffled(_agreement),
    "shuffled_distinct": _shuffled(_distinct),
    "correct": _correct,
}
"""By the name of ``values``: the weight of each answer to a prompt."""
