"""The tasks of the real world: each has questions of three kinds, with worked answers.

One kind is trained by RL, one is tested and never trained (across), and one is neither trained nor
tested. Most are drawn here; those of reasoning-gym are made by that package.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

from dph.records import Problem
from dph.tasks.verifiers.gym.verifier import gym_answer


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """A question; ``shown`` is the whole answer of an example, ``answer`` the result in it."""

    prompt: str
    shown: str
    answer: str


Draw = Callable[[Random], DrawnQuestion]


@dataclass(frozen=True, slots=True)
class GymKind:
    """Questions of a task of reasoning-gym."""

    task: str
    config: Mapping[str, Any] = field(default_factory=dict)


Kind = Draw | GymKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTask:
    """One task, as a language model is asked it by examples.

    Attributes:
        summary: for the table of worlds.
        trained: the kind of questions that RL trains, and that is tested in domain.
        across: another kind, tested and never trained.
        neither: a third kind, only asked without labels.
        template: an example: question, then answer, then the end of the line.
        verifier: grades the answers.
        max_tokens: longest answer.
        agreement: ``module:callable`` that says when answers agree, where the verifier cannot.
    """

    summary: str
    trained: Kind
    across: Kind
    neither: Kind
    template: str = "{prompt}: {answer}\n"
    verifier: str = "number"
    max_tokens: int = 8
    agreement: str | None = None


# Numbers.


def number(rng: Random, digits: int) -> int:
    """A number of that many digits."""
    return rng.randint(10 ** (digits - 1), 10**digits - 1)


def sum_of(*digits: int) -> Draw:
    """Sums of numbers with that many digits each."""

    def draw(rng: Random) -> DrawnQuestion:
        terms = [number(rng, n) for n in digits]
        total = str(sum(terms))
        return DrawnQuestion(" + ".join(map(str, terms)), total, total)

    return draw


def difference_of(first: int, second: int) -> Draw:
    """Differences of two numbers with that many digits, none below 0."""

    def draw(rng: Random) -> DrawnQuestion:
        terms = sorted((number(rng, first), number(rng, second)), reverse=True)
        result = str(terms[0] - terms[1])
        return DrawnQuestion(f"{terms[0]} - {terms[1]}", result, result)

    return draw


def extreme_of(word: str, choose: Callable[[Sequence[int]], int], count: int) -> Draw:
    """The largest or the smallest of ``count`` different numbers below 100."""

    def draw(rng: Random) -> DrawnQuestion:
        numbers = rng.sample(range(1, 100), count)
        result = str(choose(numbers))
        return DrawnQuestion(f"{word} of {', '.join(map(str, numbers))}", result, result)

    return draw


def running_sum_of(*digits: int) -> Draw:
    """Sums of several numbers, added one after another in the answer."""

    def draw(rng: Random) -> DrawnQuestion:
        terms = [number(rng, n) for n in digits]
        total, steps = terms[0], []
        for term in terms[1:]:
            steps.append(f"{total} + {term} = {total + term}")
            total += term
        shown = f"{', '.join(steps)}. Result: {total}"
        return DrawnQuestion(" + ".join(map(str, terms)), shown, str(total))

    return draw


# Letters.

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_VOWELS, _CONSONANTS = "aeiou", "bdfgklmnprstv"


def length_of(least: int, most: int, *, only: str = "") -> Draw:
    """The number of letters of an invented word, or of its letters that are among ``only``."""

    def draw(rng: Random) -> DrawnQuestion:
        length = rng.randint(least, most)
        word = "".join(rng.choice((_CONSONANTS, _VOWELS)[i % 2]) for i in range(length))
        result = str(sum(not only or letter in only for letter in word))
        what = "vowels" if only else "letters"
        return DrawnQuestion(f"{what} in {word}", result, result)

    return draw


def tally_of(length: int, *, letters: int = 4) -> Draw:
    """The count of a letter in a row of letters, kept along the row in the answer."""

    def draw(rng: Random) -> DrawnQuestion:
        few = rng.sample(_LETTERS, letters)
        row, sought = [rng.choice(few) for _ in range(length)], few[0]
        found, steps = 0, []
        for letter in row:
            found += letter == sought
            steps.append(f"{letter} {found}")
        shown = f"{', '.join(steps)}. Result: {found}"
        return DrawnQuestion(f"count {sought} in {' '.join(row)}", shown, str(found))

    return draw


def position_of(length: int) -> Draw:
    """The place of a letter in a row of different letters, counted along it in the answer."""

    def draw(rng: Random) -> DrawnQuestion:
        row = rng.sample(_LETTERS, length)
        place = rng.randrange(length)
        steps = [f"{letter} {i + 1}" for i, letter in enumerate(row[: place + 1])]
        shown = f"{', '.join(steps)}. Result: {place + 1}"
        return DrawnQuestion(f"place of {row[place]} in {' '.join(row)}", shown, str(place + 1))

    return draw


_GYM_TEMPLATE = "Question: {prompt}\nAnswer: {answer}\n"
_GYM_AGREEMENT = "lab.worlds.real.tasks:answer_text"


def answer_text(response: str, problem: Problem) -> str | None:  # noqa: ARG001
    """The answer in a response to a task of reasoning-gym: equal texts agree."""
    return gym_answer(response)


def _gym_task(
    task: str,
    trained: Mapping[str, Any],
    across: Mapping[str, Any],
    neither: GymKind,
    *,
    max_tokens: int = 12,
) -> RealTask:
    return RealTask(
        summary=f"reasoning-gym's {task}, across another configuration of it",
        trained=GymKind(task, trained),
        across=GymKind(task, across),
        neither=neither,
        template=_GYM_TEMPLATE,
        verifier="reasoning_gym",
        max_tokens=max_tokens,
        agreement=_GYM_AGREEMENT,
    )


_SUMS = RealTask(
    summary="sums of two 2-digit numbers, across of a 2-digit and a 1-digit one; a real language "
    "model, asked by examples",
    trained=sum_of(2, 2),
    across=sum_of(2, 1),
    neither=difference_of(2, 2),
    template="{prompt} = {answer}\n",
)

TASKS: Mapping[str, RealTask] = MappingProxyType(
    {
        "sums": _SUMS,
        "largest": RealTask(
            summary="the largest of 4 numbers, across of 6",
            trained=extreme_of("largest", max, 4),
            across=extreme_of("largest", max, 6),
            neither=extreme_of("smallest", min, 4),
        ),
        "letters": RealTask(
            summary="the length of an invented word, across of longer ones",
            trained=length_of(3, 7),
            across=length_of(8, 10),
            neither=length_of(4, 8, only=_VOWELS),
        ),
        "running-sum": RealTask(
            summary="four numbers added one after another, across five",
            trained=running_sum_of(1, 1, 1, 1),
            across=running_sum_of(1, 1, 1, 1, 1),
            neither=tally_of(6),
            max_tokens=64,
        ),
        "tally": RealTask(
            summary="the count of a letter in 8 letters, kept along them, across in 11",
            trained=tally_of(8),
            across=tally_of(11),
            neither=position_of(8),
            max_tokens=72,
        ),
        "chain-sum": _gym_task(
            "chain_sum",
            {"min_terms": 2, "max_terms": 2, "min_digits": 2, "max_digits": 2},
            {"min_terms": 3, "max_terms": 3, "min_digits": 1, "max_digits": 2},
            GymKind("products", {"max_digits": 2}),
        ),
        "letter-counting": _gym_task(
            "letter_counting",
            {"min_words": 3, "max_words": 6},
            {"min_words": 8, "max_words": 12},
            GymKind("spell_backward", {"max_word_len": 6}),
        ),
        "spell-backward": _gym_task(
            "spell_backward",
            {"max_word_len": 4},
            {"min_word_len": 5, "max_word_len": 6},
            GymKind("letter_counting", {"min_words": 3, "max_words": 6}),
        ),
        "count-bits": _gym_task(
            "count_bits",
            {"max_n": 2000},
            {"min_n": 2001, "max_n": 100000},
            GymKind("gcd", {"max_value": 100}),
        ),
        "simple-equations": _gym_task(
            "simple_equations",
            {"min_terms": 2, "max_terms": 2, "max_value": 10},
            {"min_terms": 3, "max_terms": 3, "max_value": 10},
            GymKind("gcd", {"max_value": 100}),
        ),
        "gcd": _gym_task(
            "gcd",
            {"max_value": 60},
            {"min_value": 61, "max_value": 150},
            GymKind("lcm", {}),
        ),
    }
)
"""Every task by name."""
