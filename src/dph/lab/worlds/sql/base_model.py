"""The base model: a small Llama that imitates all five annotators, trained from scratch.

The first edition's, which learns from sampled answers, and what the editions share: which questions
a base model learns from, and how it is kept.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from tokenizers import Regex, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from dph.lab.worlds.small_model import (
    SPECIAL,
    Block,
    PackedBlocks,
    pack_blocks,
    train_model,
    train_once,
    word_tokenizer,
)
from dph.lab.worlds.sql.annotators import Annotator
from dph.lab.worlds.sql.domains import DOMAINS, KEY, TEXT_POOLS
from dph.lab.worlds.sql.lessons import LARGEST_ANSWER, all_sums
from dph.lab.worlds.sql.question_sets import draw_questions
from dph.lab.worlds.sql.questions import AGGREGATES, OPERATORS, THRESHOLDS, Question
from dph.lab.worlds.sql.styles import STYLES
from dph.lab.worlds.sql.world import SQLWorld
from dph.lab.worlds.world import Progress

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


STEPS = 300
QUESTIONS_PER_STEP = 34
SUMS_PER_STEP = 6
BLOCKS_AT_ONCE = 20
POOL = 6000
"""How many different SQL questions the base model learns from."""


@dataclass(frozen=True, slots=True)
class AnnotatorCorpus:
    """Questions to annotators; they answer afresh every time."""

    questions: tuple[Question, ...]
    annotators: tuple[Annotator, ...]
    tokenizer: PreTrainedTokenizerFast

    def batches(self, rng: Random, *, steps: int) -> Iterator[list[PackedBlocks]]:
        """One batch for each step: every question with an answer by every annotator.

        A batch comes in pieces of similar length, which save padding and fit the CPU's caches.
        """
        sums = all_sums()
        for _ in range(steps):
            asked: list[tuple[str, list[str]]] = []
            for question in rng.choices(self.questions, k=QUESTIONS_PER_STEP):
                answers = [annotator.answer(question, rng) for annotator in self.annotators]
                asked.append((question.prompt, answers))
            for item in rng.choices(sums, k=SUMS_PER_STEP):
                asked.append((item.prompt, [item.annotate(rng) for _ in self.annotators]))
            blocks = sorted(self._encode(asked), key=len)
            yield [
                pack_blocks(
                    blocks[start : start + BLOCKS_AT_ONCE], pad_id=self.tokenizer.pad_token_id
                )
                for start in range(0, len(blocks), BLOCKS_AT_ONCE)
            ]

    def _encode(self, asked: list[tuple[str, list[str]]]) -> list[Block]:
        prompts = self.tokenizer([prompt for prompt, _ in asked])["input_ids"]
        flat = [answer for _, answers in asked for answer in answers]
        encoded = self.tokenizer(flat, add_special_tokens=False)["input_ids"]
        ended = iter([(*ids, self.tokenizer.eos_token_id) for ids in encoded])
        return [
            Block(tuple(prompt), tuple(next(ended) for _ in answers))
            for prompt, (_, answers) in zip(prompts, asked, strict=True)
        ]


class Teach(Protocol):
    """Training of a base model from one with random weights."""

    def __call__(
        self,
        model: LlamaForCausalLM,
        world: SQLWorld,
        tokenizer: PreTrainedTokenizerFast,
        *,
        seed: int,
        steps: int,
        on_progress: Progress | None,
    ) -> None:
        """Train the model; ``on_progress`` is called with the steps done since the last call."""
        ...


def teach_by_samples(
    model: LlamaForCausalLM,
    world: SQLWorld,
    tokenizer: PreTrainedTokenizerFast,
    *,
    seed: int,
    steps: int,
    on_progress: Progress | None,
) -> None:
    """Maximise the log-prob of answers that annotators give afresh in every step."""
    rng = Random(f"quickstart base model {seed}: annotators")
    batches = draw_corpus(world, tokenizer, seed=seed).batches(rng, steps=steps)
    train_model(model, batches, steps=steps, on_progress=on_progress)


def train_base_model(
    world: SQLWorld,
    directory: Path,
    *,
    seed: int,
    steps: int = STEPS,
    on_progress: Progress | None = None,
    teach: Teach = teach_by_samples,
) -> None:
    """Train the base model of a built world, once (``dph.lab.worlds.small_model.train_once``).

    No question of the in-domain or cross-domain set is trained on; the sums are so few that all of
    them are. ``on_progress`` is called with the number of steps done since the last call.

    Raises:
        ModelError: ``directory`` holds something else.
        SettingsError: ``steps`` is below 1.
    """

    def taught(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
        teach(model, world, tokenizer, seed=seed, steps=steps, on_progress=on_progress)

    train_once(
        directory,
        make_tokenizer,
        taught,
        world=world.fingerprint,
        seed=seed,
        steps=steps,
        on_progress=on_progress,
    )


def draw_corpus(
    world: SQLWorld, tokenizer: PreTrainedTokenizerFast, *, seed: int
) -> AnnotatorCorpus:
    """Training corpus of the first edition's base model."""
    return AnnotatorCorpus(draw_pool(world, seed=seed), world.annotators, tokenizer)


def draw_pool(world: SQLWorld, *, seed: int) -> tuple[Question, ...]:
    """Draw the questions that annotators answer; none of them is a test question.

    In a hostile edition none is a near-duplicate of one either.
    """
    tests = world.prompts("in_domain") + world.prompts("cross_domain")
    questions = draw_questions(
        world.databases,
        world.whose_mistakes_show,
        POOL,
        Random(f"quickstart base model {seed}: questions"),
        taken=tests,
        near=world.near_duplicates(tests),
    )
    return tuple(questions)
