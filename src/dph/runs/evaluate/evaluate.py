"""The samples of an evaluation, drawn and graded in chunks, and the tokens of some of them.

``samples.parquet`` has every answer. ``tokens.parquet`` has some of them token by token: they are
drawn again, which costs their share of the evaluation, because an answer's text does not determine
its tokens. A sample depends only on (seed, problem, index), up to rounding where two tokens are
equally likely; an answer that differs from the graded one is left out and counted.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dph._base.files import make_directory
from dph._base.files.parts import TableParts
from dph._base.import_path import code_fingerprint
from dph.errors import DataError, SettingsError
from dph.model.sampler.base import SampleRequest
from dph.model.sampler.episodes import AnswerSampler, EpisodeSampler
from dph.recipe import recipe_digest
from dph.records import Completion, Problem
from dph.runs.evaluate.samples_file import (
    GREEDY_INDEX,
    ROWS_A_GROUP,
    SAMPLES,
    TOKENS_SCHEMA,
    read_samples,
    samples_digest,
    samples_table,
    write_samples,
)
from dph.runs.evaluate.tables import digest_of, write_table
from dph.tasks.problems import problems_fingerprint
from dph.tasks.verifiers.base import verifier_identity

if TYPE_CHECKING:  # it loads torch
    from dph.model.forward.scorer import ComparedTokens

logger = logging.getLogger(__name__)

CHUNK = 64
"""Problems between two points from which a killed evaluation can continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """A named set of problems, with the sampler that draws and grades its answers."""

    name: str
    problems: tuple[Problem, ...]
    draw: AnswerSampler

    def __post_init__(self) -> None:
        if not self.problems:
            raise DataError(f"the evaluation set {self.name!r} has no problems")
        seen: set[str] = set()
        for problem in self.problems:
            if problem.problem_id in seen:
                raise DataError(f"set {self.name!r} has two problems {problem.problem_id!r}")
            seen.add(problem.problem_id)


def evaluate(
    path: Path,
    sets: Sequence[EvaluationSet],
    *,
    model: str,
    samples: int,
    seed: int,
    greedy: bool = True,
    on_progress: Callable[[int], None] | None = None,
) -> pa.Table:
    """Draw and grade ``samples`` answers to every problem of every set; write them to ``path``.

    ``model`` is the fingerprint of the weights, the tokenizer and the precision. Everything that
    the samples depend on makes a digest. A file at ``path`` with that digest is returned unchanged;
    finished chunks next to it, in ``<stem>.partial/``, are used if they have that digest and
    removed if not. A sample's random numbers depend only on (seed, problem, sample index), so an
    interrupted evaluation ends with the same file as an uninterrupted one.

    ``on_progress`` is called with the number of answers finished since the last call, of
    ``total_answers`` in all.
    """
    if samples < 1:
        raise SettingsError(f"samples must be at least 1, got {samples}")
    names = [chosen.name for chosen in sets]
    if len(set(names)) < len(names):
        raise SettingsError(f"evaluation sets need different names, got {', '.join(names)}")
    digest = _digest(sets, model=model, samples=samples, seed=seed, greedy=greedy)
    report = on_progress or (lambda _: None)
    if samples_digest(path) == digest:
        table = read_samples(path)
        report(table.num_rows)
        return table
    make_directory(path.parent)
    parts = TableParts(path.with_name(f"{path.stem}.partial"), job={"digest": digest})
    drawn = partial(
        evaluate_set, samples=samples, seed=seed, greedy=greedy, on_progress=on_progress
    )
    found = parts.tables(chunks(sets), drawn, found=lambda _, table: report(table.num_rows))
    whole = pa.concat_tables(found) if found else SAMPLES.empty_table()
    write_samples(path, whole, digest=digest)
    parts.remove()
    return whole


def evaluate_set(
    chosen: EvaluationSet,
    *,
    samples: int,
    seed: int,
    greedy: bool = True,
    on_progress: Callable[[int], None] | None = None,
) -> pa.Table:
    """The samples table of one set: for each problem the greedy answer, then the samples."""
    draw, problems, name = chosen.draw.counted_together(), chosen.problems, chosen.name
    drawn = draw(problems, samples=samples, seed=seed, on_progress=on_progress)
    if not greedy:
        return samples_table(name, drawn.groups)
    likeliest = replace(draw, parameters=replace(draw.parameters, greedy=True))
    first = likeliest(problems, samples=1, seed=seed, on_progress=on_progress)
    return pa.concat_tables(
        table
        for answer, group in zip(first.groups, drawn.groups, strict=True)
        for table in (samples_table(name, [answer], greedy=True), samples_table(name, [group]))
    ).combine_chunks()


def total_answers(sets: Sequence[EvaluationSet], *, samples: int, greedy: bool = True) -> int:
    """Number of answers that ``evaluate`` draws."""
    return sum(len(chosen.problems) for chosen in sets) * (samples + int(greedy))


def chunks(sets: Sequence[EvaluationSet]) -> Iterator[EvaluationSet]:
    """The sets in pieces of at most ``CHUNK`` problems."""
    for chosen in sets:
        for start in range(0, len(chosen.problems), CHUNK):
            yield replace(chosen, problems=chosen.problems[start : start + CHUNK])


def described(chosen: EvaluationSet) -> dict[str, Any]:
    """Everything of a set that its answers and their verdicts depend on."""
    return {
        "name": chosen.name,
        "problems": problems_fingerprint(chosen.problems),
        "verifier": verifier_identity(chosen.draw.graded_by),
        "style": style_name(chosen.draw.style),
        "parameters": chosen.draw.limits,
        "prompts": [chosen.draw.encode(problem) for problem in chosen.problems],
    }


def _digest(sets: Sequence[EvaluationSet], **rest: str | int | bool) -> str:
    columns = {field.name: str(field.type) for field in SAMPLES}
    told = {"sets": list(map(described, sets)), "columns": columns, "chunk": CHUNK}
    return recipe_digest({**told, **rest})


def style_name(style: Callable[[str], str | None] | None) -> str | None:
    """Name of a style classifier in digests; a user-defined one has its code in it."""
    if style is None:
        return None
    kind = type(style)
    module = getattr(style, "__module__", kind.__module__)
    name = f"{module}:{getattr(style, '__qualname__', kind.__qualname__)}"
    own = module.partition(".")[0] == "dph"  # a user's may change while its name does not
    return name if own else f"{name} {code_fingerprint(style)}"


TOKENS = pa.schema(
    [
        ("set", pa.string()),
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("token_ids", pa.list_(pa.int32())),
        ("pieces", pa.list_(pa.string())),
        ("logprobs", pa.list_(pa.float32())),
        ("ref_logprobs", pa.list_(pa.float32())),
        ("entropy", pa.list_(pa.float32())),
    ]
)

Compare = Callable[..., "list[ComparedTokens]"]
"""Compares policy and base at each token of prompts and completions.

For trajectories it also takes ``written``, and compares only the tokens that the policy wrote.
"""


def keep_token_details(
    path: Path,
    sets: Sequence[EvaluationSet],
    samples_table: pa.Table,
    *,
    compare: Compare,
    piece: Callable[[int], str],
    samples: int,
    seed: int,
    digest: str,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Write the tokens of the greedy answer and of the first ``samples`` samples of every problem.

    ``samples_table`` are the graded answers, ``piece`` gives a token's text; ``digest`` names
    everything that they and the comparison depend on. A file with that digest is left unchanged,
    and a killed call continues with the chunk at which it was killed. Tokens of tools' results have
    no values: the policy read them and wrote others.
    """
    if digest_of(path) == digest:
        return
    graded = {row[:3]: row[3] for row in _texts(samples_table) if row[2] < samples}
    parts = TableParts(path.with_name(f"{path.stem}.partial"), job={"digest": digest})
    report = on_progress or (lambda _: None)

    def made(chunk: EvaluationSet) -> pa.Table:
        table = _table(chunk, _drawn(chunk, samples=samples, seed=seed), compare, piece)
        report(len(chunk.problems))
        return table

    found = parts.tables(chunks(sets), made, found=lambda chunk, _: report(len(chunk.problems)))
    whole = pa.concat_tables(found) if found else TOKENS.empty_table()
    same = [graded.get(row[:3]) == row[3] for row in _texts(whole)]
    if not all(same):
        logger.warning(
            "token details: %d of %d answers differed when they were drawn again, because of "
            "rounding; they are left out",
            *(same.count(False), len(same)),
        )
    # Laid out again, so that the bytes do not depend on which pieces came from a file.
    kept = whole.filter(pa.array(same, pa.bool_())).select(TOKENS.names).cast(TOKENS)
    kept = pa.Table.from_arrays(kept.combine_chunks().columns, schema=TOKENS)
    write_table(path, kept, digest=digest, schema=TOKENS_SCHEMA, rows_a_group=ROWS_A_GROUP)
    parts.remove()


def _drawn(chunk: EvaluationSet, *, samples: int, seed: int) -> list[list[Completion]]:
    draw = chunk.draw
    found: list[Sequence[Sequence[Completion]]] = []
    for count, greedy in ((1, True), (samples, False)):
        if isinstance(draw, EpisodeSampler):
            acting = replace(draw, parameters=replace(draw.parameters, greedy=greedy))
            groups = acting(chunk.problems, samples=count, seed=seed).groups
            found.append([[graded.completion for graded in group] for group in groups])
            continue
        requests = [
            SampleRequest(problem_id=p.problem_id, prompt_ids=draw.encode(p), samples=count)
            for p in chunk.problems
        ]
        parameters = replace(draw.parameters, greedy=greedy)
        found.append(draw.sampler.sample(requests, parameters, seed=seed))
    first, sampled = found
    return [
        [replace(greedy[0], sample_index=GREEDY_INDEX), *group]
        for greedy, group in zip(first, sampled, strict=True)
    ]


def _table(
    chunk: EvaluationSet,
    drawn: Sequence[Sequence[Completion]],
    compare: Compare,
    piece: Callable[[int], str],
) -> pa.Table:
    piece = cache(piece)
    flat = [
        (problem, c) for problem, group in zip(chunk.problems, drawn, strict=True) for c in group
    ]
    written = [c.written for _, c in flat]
    acting = {} if all(row is None for row in written) else {"written": written}
    compared = compare(
        [c.prompt_ids or chunk.draw.encode(problem) for problem, c in flat],
        [c.token_ids for _, c in flat],
        **acting,
    )
    rows = [
        {
            "set": chunk.name,
            "problem_id": completion.problem_id,
            "sample_index": completion.sample_index,
            "token_ids": completion.token_ids,
            "pieces": [piece(token) for token in completion.token_ids],
            "logprobs": _spread(tokens.logprobs, completion),
            "ref_logprobs": _spread(tokens.ref_logprobs, completion),
            "entropy": _spread(tokens.entropy, completion),
            "text": completion.text,
        }
        for (_, completion), tokens in zip(flat, compared, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=TOKENS.append(pa.field("text", pa.string())))


def _spread(values: Sequence[float], completion: Completion) -> Sequence[float | None]:
    """A value for each token, None for those that the policy did not write."""
    if completion.written is None:
        return values
    own = iter(values)
    return [next(own) if mine else None for mine in completion.written]


def _texts(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Set, problem, index and text of every row."""
    names = ("set", "problem_id", "sample_index", "text")
    return zip(*(table[name].to_pylist() for name in names), strict=True)
