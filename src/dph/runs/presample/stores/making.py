"""Drawing a store: answers to every prompt, and the distributions at their tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from dph._base.files.parts import TableParts
from dph.model.forward.over_vocabulary import blocks, bucket_logprobs, next_tokens
from dph.model.forward.scorer import AnswerScorer
from dph.model.forward.sharing import plan_microbatches
from dph.model.loading import autocast
from dph.model.sampler.episodes import AnswerSampler, EpisodeSampler
from dph.model.sampler.graded import Ungraded
from dph.records import UNGRADED, Completion, Outcome, Problem, Verdict
from dph.runs.presample.making import drawn_chunks
from dph.runs.presample.stores.groups import (
    Acting,
    AnswerTrie,
    StoredGroup,
    answer_trie,
    groups_of,
    groups_schema,
    groups_table,
)

# Next-token distributions of the initial policy at given tokens: chosen ones, and the rest.


class Kept(NamedTuple):
    """The stored part of one distribution: log-probs of some tokens, and of all others together."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    log_tail: float


class KeptTokens(NamedTuple):
    """A place of a row, and the tokens that are kept there whatever their probability."""

    row: int
    position: int
    token_ids: tuple[int, ...]


def kept_distributions(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    wanted: Sequence[KeptTokens],
    *,
    top: int | None,
    scorer: AnswerScorer,
) -> list[Kept]:
    """One distribution for each element of ``wanted``, in order.

    ``top`` are the likeliest tokens kept in addition to those asked for; None keeps all.
    Computed as: the training forward, which runs what rows begin with alike once (examples before a
    question, the prompt of all its answers); the head on the wanted places alone, a block of them
    at a time; the softmax in float32.
    """
    kept: list[Kept | None] = [None] * len(wanted)
    places: dict[int, list[int]] = {}
    for index, place in enumerate(wanted):
        places.setdefault(place.row, []).append(index)
    rows = sorted(places)
    asked = [prompts[row] for row in rows], [completions[row] for row in rows]
    vocabulary = model.config.get_text_config().vocab_size
    for batch in plan_microbatches(
        model, *asked, token_budget=scorer.token_budget, sharing=scorer.sharing
    ):
        with autocast(model, scorer.dtype):
            found = next_tokens(
                model,
                [asked[0][at] for at in batch.rows],
                [asked[1][at] for at in batch.rows],
                temperature=scorer.temperature,
                pad_id=scorer.pad_id,
                sharing=batch.sharing,
                forest=batch.forest,
            )
        chosen, first = [], 0
        for at in batch.rows:
            chosen += [(first + wanted[index].position, index) for index in places[rows[at]]]
            first += len(asked[1][at])
        for block in blocks(len(chosen), vocabulary):
            table = found.logprobs(torch.tensor([position for position, _ in chosen[block]]))
            also = [wanted[index].token_ids for _, index in chosen[block]]
            for (_, index), one in zip(chosen[block], _kept(table, also, top), strict=True):
                kept[index] = one
    return [one for one in kept if one is not None]


def _kept(
    table: Float[Tensor, "places vocabulary"], also: Sequence[Sequence[int]], top: int | None
) -> list[Kept]:
    """The likeliest tokens of every row of ``table`` and ``also``, and the log of the rest."""
    vocabulary = table.shape[-1]
    count = vocabulary if top is None else min(top, vocabulary)
    likeliest: list[list[int]] = table.topk(count, dim=-1).indices.tolist()
    ids = [list(dict.fromkeys([*best, *more])) for best, more in zip(likeliest, also, strict=True)]
    width = max(map(len, ids))
    padded: Int[Tensor, "places width"] = torch.tensor(
        [[*row, *[row[0]] * (width - len(row))] for row in ids], device=table.device
    )
    values = bucket_logprobs(table, padded).tolist()
    return [
        Kept(tuple(row), tuple(numbers[: len(row)]), numbers[-1])
        for row, numbers in zip(ids, values, strict=True)
    ]


CHUNK = 32
"""Prompts between two points at which a killed run can go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDraw:
    """The sampler of a store, and the number of its draws.

    Attributes:
        model: the initial policy.
        sampler: of its answers, or of its trajectories in an environment.
        answers: to each prompt.
        top: likeliest tokens kept at every position; None keeps all.
    """

    model: PreTrainedModel
    sampler: AnswerSampler
    answers: int
    top: int | None
    seed: int
    scorer: AnswerScorer


def drawn_groups(
    problems: Sequence[Problem],
    draw: StoreDraw,
    parts: TableParts,
    *,
    on_progress: Callable[[int], None] | None = None,
    on_chunk: Callable[[int, pa.Table], None] = lambda _index, _groups: None,
) -> list[pa.Table]:
    """The groups of ``problems`` in tables of ``CHUNK`` prompts, as of ``drawn_chunks``."""
    return drawn_chunks(
        problems,
        lambda chunk: groups_table(_draw(chunk, draw, on_progress)),
        parts,
        schema=groups_schema(acting=isinstance(draw.sampler, EpisodeSampler)),
        size=CHUNK,
        answers=draw.answers,
        on_progress=on_progress,
        on_chunk=on_chunk,
    )


def sizes(groups: Sequence[pa.Table]) -> dict[str, int]:
    """Size of a store: prompts, answers, their tokens, those cut off, and distributions."""
    found = [group for table in groups for group in groups_of(table)]
    return {
        "prompts": len(found),
        "answers": sum(len(group.texts) for group in found),
        "tokens": sum(len(row) for group in found for row in group.ref_logprobs),
        "distributions": sum(len(group.token_ids) for group in found),
        "cut_off": sum(not done for group in found for done in group.finished),
    }


def _draw(
    problems: Sequence[Problem], draw: StoreDraw, on_progress: Callable[[int], None] | None
) -> list[StoredGroup]:
    return with_distributions(problems, drawn_answers(problems, draw, on_progress), draw)


def drawn_answers(
    problems: Sequence[Problem],
    draw: StoreDraw,
    on_progress: Callable[[int], None] | None = None,
) -> Ungraded:
    """The answers to every prompt."""
    return draw.sampler.ungraded(
        problems, samples=draw.answers, seed=draw.seed, on_progress=on_progress
    )


def with_distributions(
    problems: Sequence[Problem], drawn: Ungraded, draw: StoreDraw
) -> list[StoredGroup]:
    """Score each different beginning of answers once, in the first answer that continues it."""
    acting = [_acting(*each) for each in zip(drawn.groups, drawn.verdicts, strict=True)]
    tries = [
        answer_trie([c.token_ids for c in group], acts.written if acts else None)
        for group, acts in zip(drawn.groups, acting, strict=True)
    ]
    prompts: list[tuple[int, ...]] = []
    completions: list[tuple[int, ...]] = []
    wanted: dict[tuple[int, int], KeptTokens] = {}
    for index, (prompt, group, trie) in enumerate(
        zip(drawn.prompts, drawn.groups, tries, strict=True)
    ):
        inner = frozenset(trie.inner)
        for completion, path in zip(group, trie.paths, strict=True):
            new = [
                t
                for t, node in enumerate(path[:-1])
                if node in inner and (index, node) not in wanted
            ]
            for t in new:
                tokens = tuple(trie.children[path[t]])
                wanted[index, path[t]] = KeptTokens(len(prompts), t, tokens)
            if new:
                prompts.append(prompt)
                completions.append(completion.token_ids)
    kept = kept_distributions(
        draw.model,
        prompts,
        completions,
        list(wanted.values()),
        top=draw.top,
        scorer=draw.scorer,
    )
    found = dict(zip(wanted, kept, strict=True))
    return [
        _group(problem, prompt, group, acts, trie, {n: found[index, n] for n in trie.inner})
        for index, (problem, prompt, group, acts, trie) in enumerate(
            zip(problems, drawn.prompts, drawn.groups, acting, tries, strict=True)
        )
    ]


def _acting(group: Sequence[Completion], verdicts: Sequence[Verdict | None]) -> Acting | None:
    """Facts of trajectories alone: who wrote what, and how each ended."""
    written = [c.written for c in group if c.written is not None]
    if not written:
        return None
    return Acting(
        written=tuple(written),
        ends=tuple(c.end for c in group),
        rewarded=tuple(
            None if v is None or v.outcome in UNGRADED else v.outcome is Outcome.CORRECT
            for v in verdicts
        ),
    )


def _group(
    problem: Problem,
    prompt: tuple[int, ...],
    group: Sequence[Completion],
    acting: Acting | None,
    trie: AnswerTrie,
    kept: Mapping[int, Kept],
) -> StoredGroup:
    drawn = {node: dict(zip(k.token_ids, k.logprobs, strict=True)) for node, k in kept.items()}
    return StoredGroup(
        problem=problem,
        prompt_ids=prompt,
        texts=tuple(c.text for c in group),
        finished=tuple(c.finished for c in group),
        completions=tuple(c.token_ids for c in group),
        ref_logprobs=tuple(
            tuple(
                drawn[node][token]
                for node, token in compress(
                    zip(path, c.token_ids, strict=False), c.written or repeat(True)
                )
            )
            for path, c in zip(trie.paths, group, strict=True)
        ),
        token_ids=tuple(k.token_ids for k in kept.values()),
        logprobs=tuple(np.array(k.logprobs) for k in kept.values()),
        log_tails=tuple(k.log_tail for k in kept.values()),
        acting=acting,
    )
