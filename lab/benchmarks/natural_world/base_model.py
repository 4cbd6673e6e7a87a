"""The base model: a Llama of a few million weights that writes every form of a query.

The schema is the stem that questions on a database share; what should come next is the even mixture
of the forms that a lesson has (``lab.worlds.lessons``).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from dph._base.files import write_json
from dph.tasks.sql.schema import read_tables
from lab.benchmarks.natural_world.tokenizer import make_tokenizer, with_marks
from lab.benchmarks.natural_world.world import World, schema_text
from lab.worlds.fused_llama import imitate
from lab.worlds.lessons import Answerer, Lesson, answers_of
from lab.worlds.small_model import Rates, Shape, is_trained, new_model, save_model
from lab.worlds.world import Progress, fingerprint

CONTEXT, HEADS = 384, 4
RATES = Rates(final=0.02)
STEPS = 1500
DATABASES_PER_STEP, QUESTIONS_PER_DATABASE = 2, 12
FORMS_AT_ONCE = 2
"""So many forms of a question are in a lesson, drawn anew each time."""


def shape_of(width: int, layers: int) -> Shape:
    """A Llama's sizes; inner values are 8/3 of the width, in steps of 16."""
    inner = round(width / 6) * 16
    return Shape(width=width, inner=inner, layers=layers, heads=HEADS, context=CONTEXT)


def train_base_model(
    world: World,
    directory: Path,
    *,
    seed: int,
    shape: Shape,
    steps: int = STEPS,
    on_progress: Progress | None = None,
) -> None:
    """Train the base model on the world's set ``base`` and save it, unless it is there.

    ``base_model.json`` beside the directory says how many weights it has and how many seconds of
    CPU time the training took.

    Raises:
        ModelError: ``directory`` holds something else.
    """
    made_from = {"world": fingerprint(world), "seed": seed, "steps": steps, **asdict(shape)}
    if is_trained(directory, made_from):
        return
    rows = world.rows("base")
    tokenizer = make_tokenizer(texts_of(world, rows))
    model = new_model(tokenizer, seed=seed, shape=shape)
    lessons = lessons_of_steps(rows, tokenizer, seed=seed, steps=steps)
    started = time.process_time()
    imitate(
        model,
        lessons,
        count=steps,
        rng=np.random.default_rng(seed),
        rates=RATES,
        on_progress=on_progress,
    )
    facts = {
        "weights": sum(weight.numel() for weight in model.parameters()),
        "cpu_seconds": round(time.process_time() - started, 1),
        "steps": steps,
    }
    save_model(directory, model, tokenizer, made_from)
    write_json(directory.with_suffix(".json"), facts)


def texts_of(world: World, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the tokenizer's words are taken from: what is learnt, and the names of all schemas."""
    for schema in read_tables(world.spider / "tables.json").values():
        yield f"{schema_text(schema)} |"
    for row in rows:
        yield row["prompt"].partition(" | ")[2]
        yield from map(with_marks, row["forms"].values())


def lessons_of_steps(
    rows: Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerFast,
    *,
    seed: int,
    steps: int,
) -> Iterator[list[Lesson]]:
    """Some databases a step with some questions each; a deck of all questions is dealt over again.

    A database comes as often as it has questions.
    """
    rng = Random(f"natural base model {seed}")
    encode = _Encoder(tokenizer)
    hands: Iterator[list[Mapping[str, Any]]] = _hands(rows, rng)
    for _ in range(steps):
        asked = [row for _ in range(DATABASES_PER_STEP) for row in next(hands)]
        yield [_lesson(row, encode, rng) for row in asked]


def _hands(rows: Sequence[Mapping[str, Any]], rng: Random) -> Iterator[list[Mapping[str, Any]]]:
    """Questions on one database at a time, all of them once before any comes again."""
    by_database: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_database.setdefault(row["db_id"], []).append(row)
    size = QUESTIONS_PER_DATABASE
    while True:
        hands = []
        for of_database in by_database.values():
            deck = rng.sample(of_database, len(of_database))
            hands += [deck[start : start + size] for start in range(0, len(deck), size)]
        rng.shuffle(hands)
        yield from hands


class _Encoder:
    """Token ids of texts, each text once."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}
        self.bos, self.eos = int(tokenizer.bos_token_id), int(tokenizer.eos_token_id)

    def __call__(self, text: str) -> tuple[int, ...]:
        if text not in self._known:
            ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            self._known[text] = tuple(ids)
        return self._known[text]


def _lesson(row: Mapping[str, Any], encode: _Encoder, rng: Random) -> Lesson:
    schema, _, question = row["prompt"].partition(" | ")
    forms = sorted(row["forms"].values())
    chosen = rng.sample(forms, min(FORMS_AT_ONCE, len(forms)))
    answers = [Answerer((*encode(with_marks(form)), encode.eos), (), ()) for form in chosen]
    stem = (encode.bos, *encode(f"{schema} |"))
    return Lesson(stem, encode(question), answers_of(answers))
