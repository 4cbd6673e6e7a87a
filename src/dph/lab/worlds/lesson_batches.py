"""Lessons as tensors: stems stand once, a row is a prompt with an answer by each who answers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.lab.worlds.lessons import Floats, Ints, Lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some prompts with answers behind stems that they share; everything padded.

    A row is a prompt without its stem and all its answers; answers do not see each other.
    """

    stem_ids: Int[Tensor, "stems stem_tokens"]
    ids: Int[Tensor, "rows tokens"]
    stem_of: Int[Tensor, " rows"]
    positions: Int[Tensor, "rows tokens"]
    """Counted from the beginning of the stem."""
    stem_attention: Float[Tensor, "stem_tokens stem_tokens"]
    """0 where a token of a stem may look, -inf where not."""
    attention: Float[Tensor, "rows 1 tokens keys"]
    """Keys are those of the row's stem, then its own; -inf where a token may not look."""
    where: Int[Tensor, " targets"]
    """Tokens, counted row after row, after which something is to be predicted."""
    target_rows: Int[Tensor, " chances"]
    target_ids: Int[Tensor, " chances"]
    target_chances: Float[Tensor, " chances"]
    """How likely token ``target_ids`` is to come at target ``target_rows``."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A lesson with drawn answers: arrays over its tokens, and over what they predict."""

    ids: Ints
    positions: Ints
    answer: Ints
    """0 for the prompt, then the number of the answer."""
    where: Ints
    """Tokens after which something is to be predicted."""
    likely_ids: Ints
    """[targets, options]"""
    likely: Floats


def lesson_batch(lessons: Sequence[Lesson], rng: np.random.Generator, *, pad_id: int) -> Batch:
    """Draw answers to some lessons and lay them out."""
    stems = list(dict.fromkeys(lesson.stem for lesson in lessons))
    rows = [_drawn(lesson, rng) for lesson in lessons]
    stem_of = np.array([stems.index(lesson.stem) for lesson in lessons])
    longest, tokens = max(map(len, stems)), max(len(row.ids) for row in rows)
    stem_ids = np.full((len(stems), longest), pad_id)
    for line, stem in zip(stem_ids, stems, strict=True):
        line[: len(stem)] = stem
    ids, positions = np.full((len(rows), tokens), pad_id), np.zeros((len(rows), tokens), np.int64)
    answer = np.full((len(rows), tokens), -1)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        positions[i, : len(row.ids)] = row.positions
        answer[i, : len(row.ids)] = row.answer
    stem_lengths = np.array([len(stem) for stem in stems])[stem_of]
    rows_of, ids_of, chances = _targets(rows)
    return Batch(
        stem_ids=torch.from_numpy(stem_ids),
        ids=torch.from_numpy(ids),
        stem_of=torch.from_numpy(stem_of),
        positions=torch.from_numpy(positions),
        stem_attention=torch.full((longest, longest), float("-inf")).triu(1),
        attention=_attention(torch.from_numpy(answer), torch.from_numpy(stem_lengths), longest),
        where=torch.from_numpy(np.concatenate([r.where + i * tokens for i, r in enumerate(rows)])),
        target_rows=torch.from_numpy(rows_of),
        target_ids=torch.from_numpy(ids_of),
        target_chances=torch.from_numpy(chances).float(),
    )


def _drawn(lesson: Lesson, rng: np.random.Generator) -> _Row:
    """The prompt, then the answers without their ends; what follows the prompt is any beginning."""
    answers = lesson.answers
    tokens, likely = answers.draw(rng.random(len(answers.chances)))
    begins = np.flatnonzero(np.diff(answers.answer, prepend=0))
    ends = np.flatnonzero(np.diff(answers.answer, append=0))
    read, said = np.delete(np.arange(len(tokens)), ends), np.delete(np.arange(len(tokens)), begins)
    prompt = len(lesson.prompt)
    within = np.arange(len(tokens)) - begins[answers.answer - 1]
    width = max(len(begins), likely.shape[1])
    likely_ids = np.zeros((1 + len(said), width), dtype=np.int64)
    chances = np.zeros((1 + len(said), width))
    likely_ids[0, : len(begins)], chances[0, : len(begins)] = tokens[begins], 1 / len(begins)
    likely_ids[1:, : likely.shape[1]] = answers.options[said]
    chances[1:, : likely.shape[1]] = likely[said]
    return _Row(
        ids=np.concatenate([lesson.prompt, tokens[read]]),
        positions=len(lesson.stem) + np.concatenate([np.arange(prompt), prompt + within[read]]),
        answer=np.concatenate([np.zeros(prompt, np.int64), answers.answer[read]]),
        where=np.concatenate([[prompt - 1], prompt + np.arange(len(read))]),
        likely_ids=likely_ids,
        likely=chances,
    )


def _targets(rows: Sequence[_Row]) -> tuple[Ints, Ints, Floats]:
    """Row, token and chance of everything that may come at a target of all rows."""
    found, before = [], 0
    for row in rows:
        target, option = np.nonzero(row.likely)
        found.append((target + before, row.likely_ids[target, option], row.likely[target, option]))
        before += len(row.likely)
    rows_of, ids_of, chances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows_of, ids_of, chances


def _attention(
    answer: Int[Tensor, "rows tokens"], stem_lengths: Int[Tensor, " rows"], longest: int
) -> Float[Tensor, "rows 1 tokens keys"]:
    rows, tokens = answer.shape
    keys, queries = answer[:, None, :], answer[:, :, None]
    own = ((keys == 0) | (keys == queries)) & torch.ones(tokens, tokens, dtype=torch.bool).tril()
    stem = torch.arange(longest) < stem_lengths[:, None]  # padding looks there, too
    allowed = torch.cat([stem[:, None].expand(rows, tokens, longest), own], dim=2)
    mask = torch.zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))
    return mask[:, None]
