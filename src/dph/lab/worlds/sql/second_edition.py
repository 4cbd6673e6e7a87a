"""The text-to-SQL world, second edition: less luck in its design, a base that imitates better."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from random import Random
from typing import Any

import numpy as np
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from dph.lab.worlds.fused_llama import imitate
from dph.lab.worlds.lessons import Lesson
from dph.lab.worlds.small_model import Rates
from dph.lab.worlds.sql.annotators import knowledge_by_part
from dph.lab.worlds.sql.base_model import TextEncoder, draw_pool, train_base_model
from dph.lab.worlds.sql.editions import (
    QUESTIONS_WITHOUT_ANSWERS,
    TINY,
    TINY_STEPS,
    Edition,
    SQLWorldSizes,
)
from dph.lab.worlds.sql.lessons import all_sums, question_lesson, sum_lesson
from dph.lab.worlds.sql.questions import EQUALITY, Question
from dph.lab.worlds.sql.world import SQLWorld, build_world
from dph.lab.worlds.world import GENTLE, Progress, WorldKind

# The second edition's base model: taught by what annotators are known to say, not by samples.

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
    world: SQLWorld,
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
    world: SQLWorld, tokenizer: PreTrainedTokenizerFast, *, seed: int, steps: int
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


# What a recipe on the text-to-SQL world says, whatever the method.

MAX_TOKENS = 32
SQL_SETS = ("in_domain", "cross_domain")


def sql_settings(
    world: SQLWorld, *, optimizer: Mapping[str, float] = GENTLE
) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``sampling``, ``presample``, and ``train`` with the optimizer."""
    sets = {name: {"path": str(world.problems_path(name))} for name in SQL_SETS}
    arithmetic = {
        "path": str(world.problems_path("arithmetic")),
        "verifier": "number",
        "styles": "dph.lab.worlds.sql.lessons:arithmetic_style",
    }
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {**sets, "arithmetic": arithmetic},
            "verifier": "sql",
            "styles": "sql",
            "databases": str(world.databases_directory),
        },
        "sampling": {"max_tokens": MAX_TOKENS},
        "presample": {"samples": 8, "threshold": 7},
        "train": dict(optimizer),
    }


SECOND = Edition(
    number=2,
    schema=3,
    draw_knowledge=knowledge_by_part,
    sizes=SQLWorldSizes(in_domain=300, cross_domain=300),
    unlabelled=QUESTIONS_WITHOUT_ANSWERS,
)


SECOND_EDITION = WorldKind(
    base_steps=STEPS,
    sizes=SQLWorldSizes,
    build=partial(build_world, edition=SECOND),
    train_base_model=partial(train_base_model, teach=teach_by_chances),
    settings=sql_settings,
    tiny=TINY,
    tiny_steps=TINY_STEPS,
)
"""Knowledge is balanced within trained, held-out and cross-domain terms; the base model is taught
by the annotators' own chances."""
