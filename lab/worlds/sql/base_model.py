"""The base model: a small Llama that imitates all five annotators, trained from scratch.

It is taught by what annotators are known to say, not by samples of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from tokenizers import Regex, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from lab.worlds.fused_llama import imitate
from lab.worlds.lessons import Answerer, Lesson, answers_of
from lab.worlds.small_model import SPECIAL, Rates, train_once, word_tokenizer
from lab.worlds.sql.annotators import Annotator, chance_of_right
from lab.worlds.sql.domains import DOMAINS, KEY, TEXT_POOLS
from lab.worlds.sql.kind import STEPS
from lab.worlds.sql.question_sets import draw_questions
from lab.worlds.sql.questions import (
    AGGREGATES,
    CONFUSED_OPERATORS,
    EQUALITY,
    OPERATORS,
    STYLES,
    THRESHOLDS,
    Question,
    read,
    write_answer,
)
from lab.worlds.sql.sums import FORMS, LARGEST_ANSWER, Sum, all_sums
from lab.worlds.sql.world import SQLWorld
from lab.worlds.world import Progress, fingerprint

# Questions and sums as lessons: who answers, and how likely each answer is.

Encode = Callable[[Sequence[str]], list[list[int]]]
"""Texts to token ids, without a beginning or an end."""


def question_lesson(
    question: Question, annotators: Sequence[Annotator], encode: Encode, *, bos: int, eos: int
) -> Lesson:
    """A question, and one answer by each annotator.

    The stem is the schema, which all questions about a database share.
    """
    schema, rest = f"{question.domain.schema} |", f"{question.text} ->"
    texts = [text for a in annotators for text in _variations(question, a)]
    encoded = encode([schema, rest, *texts])
    stem, prompt = encoded[:2]
    rows = iter([*ids, eos] for ids in encoded[2:])
    answerers = []
    for annotator in annotators:
        chances = _chances(question, annotator)
        answerers.append(Answerer(next(rows), [[next(rows)] for _ in chances], chances))
    return Lesson((bos, *stem), tuple(prompt), answers_of(answerers))


def _variations(question: Question, annotator: Annotator) -> list[str]:
    """The right answer, then for each choice the one in which it alone is wrong."""
    right = {term: annotator.beliefs[term].column for term in question.terms}
    operators = tuple(OPERATORS[phrase] for phrase in question.phrases)
    readings = [read(question, right, operators)]
    for term in question.terms:
        mistaken = {**right, term: annotator.beliefs[term].mistaken}
        readings.append(read(question, mistaken, operators))
    for index in _readable_wrongly(question):
        confused = list(operators)
        confused[index] = CONFUSED_OPERATORS[question.phrases[index]]
        readings.append(read(question, right, tuple(confused)))
    return [write_answer(reading, annotator.style) for reading in readings]


def _chances(question: Question, annotator: Annotator) -> list[tuple[float, float]]:
    known = [annotator.beliefs[term].known for term in question.terms]
    phrases = [question.phrases[index] for index in _readable_wrongly(question)]
    known += [phrase not in annotator.misread for phrase in phrases]
    return [(p, 1 - p) for p in map(chance_of_right, known)]


def _readable_wrongly(question: Question) -> list[int]:
    """The places of phrases that somebody could misread."""
    return [i for i, p in enumerate(question.phrases) if CONFUSED_OPERATORS[p] != OPERATORS[p]]


def sum_lesson(item: Sum, encode: Encode, *, bos: int, eos: int) -> Lesson:
    """A sum, and an answer in each form; forms are equally likely, as for annotators."""
    chances = item.chances()
    texts = [f"{form} {number}" for form in FORMS for number in chances]
    prompt, *encoded = encode([item.prompt, *texts])
    answerers = []
    for start in range(0, len(encoded), len(chances)):
        usual, *others = ([*ids, eos] for ids in encoded[start : start + len(chances)])
        answerers.append(Answerer(usual, [others], [list(chances.values())]))
    return Lesson((bos,), tuple(prompt), answers_of(answerers))


def arithmetic_style(response: str) -> str:
    """The form that an answer is written in: "calc", "think" or "other".

    >>> arithmetic_style("think: so 7")
    'think'
    """
    label = response.partition(":")[0]
    return label if label in ("calc", "think") else "other"


# The word-level tokenizer of the quickstart world: one for every seed.

QUESTION_WORDS = ("show", "how many", "of", "with", "whose", "has", "and", "|", "->")
SUM_WORDS = ("had", "got", "lost", "then", "?", "calc:", "think:", "so")
SQL_WORDS = (
    *("SELECT", "FROM", "WHERE", "AND", "JOIN", "(", ")", ";", "c", "keep", "sort"),
    *("count ( * )", "SELECT * FROM", "WITH c AS (", "ORDER BY", "LIMIT 1"),
    *("AS p", "AS q", "p .", "q .", f"USING ( {KEY} )", f"{KEY} IN ("),
    *(f"{function} (" for function in AGGREGATES.values()),
)


def vocabulary() -> tuple[str, ...]:
    """Every token, in the order of the ids; some are fixed phrases, to keep answers short."""
    columns = [column for domain in DOMAINS for column in domain.columns]
    words = [
        *SPECIAL,
        *(f"{style}:" for style in STYLES),
        *SQL_WORDS,
        *QUESTION_WORDS,
        *SUM_WORDS,
        *OPERATORS,
        *OPERATORS.values(),
        *AGGREGATES,
        KEY,
        *(table.name for domain in DOMAINS for table in domain.tables),
        *(column.name for column in columns),
        *(column.term for column in columns),
        *(f"'{value}'" for pool in TEXT_POOLS for value in pool),
        *(str(number) for number in (*range(LARGEST_ANSWER + 1), *THRESHOLDS)),
    ]
    return tuple(dict.fromkeys(words))


def _pattern() -> str:
    """Kind of a token: a fixed phrase, or a word."""
    phrases = sorted((re.escape(t) for t in vocabulary() if " " in t), key=len, reverse=True)
    return rf"(?:{'|'.join(phrases)})(?!\S)|\S+"


class TextEncoder:
    """The tokenizer's ids, without its beginning, several times as fast for short texts."""

    def __init__(self) -> None:
        self._ids = {token: index for index, token in enumerate(vocabulary())}
        self._tokens = re.compile(_pattern())

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; a word that is not in the vocabulary is a ``KeyError``."""
        return [[self._ids[token] for token in self._tokens.findall(text)] for text in texts]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; decoding gives back every text of the world, blank for blank."""
    split = pre_tokenizers.Split(Regex(_pattern()), behavior="removed", invert=True)
    return word_tokenizer(vocabulary(), split)


POOL = 6000
"""Number of different SQL questions that the base model learns from."""
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
"""Share of questions of each kind; ``text`` has its second condition about a text.

As often as the pool has them, most questions would be of kinds that are learnt early: one in 100
is a superlative and one in 14 has a condition about a text, and these take longest.
"""


def train_base_model(
    world: SQLWorld,
    directory: Path,
    *,
    seed: int,
    steps: int = STEPS,
    on_progress: Progress | None = None,
) -> None:
    """Train the base model of a built world, once (``lab.worlds.small_model.train_once``).

    Lowers the cross-entropy with the annotators' own chances of saying each token. No question of
    the in-domain or cross-domain set is trained on; the sums are so few that all of them are.
    ``on_progress`` is called with the number of steps done since the last call.
    """

    def taught(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
        rng = np.random.default_rng(_stream(seed, "answers").getrandbits(64))
        lessons = lessons_of_steps(world, tokenizer, seed=seed, steps=steps)
        imitate(model, lessons, count=steps, rng=rng, rates=RATES, on_progress=on_progress)

    train_once(
        directory,
        make_tokenizer,
        taught,
        world=fingerprint(world),
        seed=seed,
        steps=steps,
        on_progress=on_progress,
    )


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


def draw_pool(world: SQLWorld, *, seed: int) -> tuple[Question, ...]:
    """Draw the questions that annotators answer; none of them is a test question."""
    tests = world.prompts("in_domain") + world.prompts("cross_domain")
    questions = draw_questions(
        world.databases, world.annotators, POOL, _stream(seed, "questions"), taken=tests
    )
    return tuple(questions)


def _stream(seed: int, purpose: str) -> Random:
    return Random(f"quickstart base model {seed}: {purpose}")
