"""The second edition's base model: taught by what annotators are known to say, not by samples."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random

import numpy as np
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from dph.lab.worlds.imitation import imitate
from dph.lab.worlds.lessons import Lesson
from dph.lab.worlds.small_model import Rates
from dph.lab.worlds.sql.arithmetic import all_sums
from dph.lab.worlds.sql.base_model import draw_pool
from dph.lab.worlds.sql.questions import EQUALITY, Question
from dph.lab.worlds.sql.arithmetic import question_lesson, sum_lesson
from dph.lab.worlds.sql.base_model import TextEncoder
from dph.lab.worlds.sql.world import World
from dph.lab.worlds.world import Progress

STEPS = 500
QUESTIONS_PER_STEP = 13
SUMS_PER_STEP = 6
RATES = Rates(final=0.02)
SHARES: Mapping[str, float] = {
    "list": 0.15,
    "count": 0.09,
    "aggregate": 0.13,
    "join": 0.13,
    "superlative": 0.12,
    "two_conditions": 0.22,
    "text": 0.16,
}
"""How often a question of each kind is asked; ``text`` has its second condition about a text.

As often as the pool has them, most questions would be of kinds that are learnt early: one in 100
is a superlative and one in 14 has a condition about a text, and these take longest.
"""


def teach_by_chances(
    model: LlamaForCausalLM,
    world: World,
    tokenizer: PreTrainedTokenizerFast,
    *,
    seed: int,
    steps: int,
    on_progress: Progress | None,
) -> None:
    """Lower the cross-entropy with the annotators' own chances of saying each token."""
    rng = np.random.default_rng(_stream(seed, "answers").getrandbits(64))
    lessons = lessons_of_steps(world, tokenizer, seed=seed, steps=steps)
    imitate(model, lessons, count=steps, rng=rng, rates=RATES, on_progress=on_progress)


def lessons_of_steps(
    world: World, tokenizer: PreTrainedTokenizerFast, *, seed: int, steps: int
) -> Iterator[Sequence[Lesson]]:
    """Questions in their shares, none twice before all of its kind were had, and random sums."""
    encode = TextEncoder()
    ends = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id}
    sums = [sum_lesson(item, encode, **ends) for item in all_sums()]

    @cache
    def lesson(question: Question) -> Lesson:
        return question_lesson(question, world.annotators, encode, **ends)

    rng = _stream(seed, "order of lessons")
    decks = _decks(draw_pool(world, seed=seed), rng)
    shares = [SHARES[kind] for kind in decks]
    for _ in range(steps):
        kinds = rng.choices(list(decks), shares, k=QUESTIONS_PER_STEP)
        asked = [next(decks[kind]) for kind in kinds]
        yield [*map(lesson, asked), *rng.choices(sums, k=SUMS_PER_STEP)]


def lesson_kind(question: Question) -> str:
    """The kind that ``SHARES`` counts a question as."""
    return "text" if any(c.phrase in EQUALITY for c in question.conditions) else question.kind


def _decks(pool: Sequence[Question], rng: Random) -> dict[str, Iterator[Question]]:
    """For each kind in the pool its questions in random order, again and again."""
    by_kind: dict[str, list[Question]] = {}
    for question in pool:
        by_kind.setdefault(lesson_kind(question), []).append(question)

    def deck(questions: list[Question]) -> Iterator[Question]:
        while True:
            yield from rng.sample(questions, len(questions))

    return {kind: deck(by_kind[kind]) for kind in SHARES if kind in by_kind}


def _stream(seed: int, purpose: str) -> Random:
    return Random(f"quickstart base model {seed}: {purpose}")
