"""``tokens.parquet`` next to ``samples.parquet``: the tokens of some answers, one by one.

Of a trajectory, tokens of results have no values: the policy read them and wrote others.

The answers are those of ``samples.parquet``: they are drawn again, which costs their share of the
evaluation, because an answer's text does not tell its tokens. A sample depends on (seed, problem,
index) alone, up to rounding where two tokens are equally likely; an answer that came out otherwise
than the one that was graded is left out and counted.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path
from dph._base.files.parts import TableParts
from dph.model.forward.scorer import ComparedTokens
from dph.model.sampler.base import SampleRequest
from dph.model.sampler.episodes import EpisodeSampler
from dph.records import Completion
from dph.runs.evaluate.evaluate import EvaluationSet, chunks
from dph.runs.evaluate.samples_file import GREEDY_INDEX, ROWS_A_GROUP, SCHEMA, VERSION

logger = logging.getLogger(__name__)

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
_DIGEST = b"dph.digest"

Compare = Callable[..., list[ComparedTokens]]
"""Prompts and completions, as tokens, to what the policy and the base say of each token.

Of trajectories it also takes ``written``, and says it of the tokens that the policy wrote.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReader:
    """Converter of answers to rows: a comparison of two models, and the text of one token."""

    compare: Compare
    piece: Callable[[int], str]


def keep_token_details(
    path: Path,
    sets: Sequence[EvaluationSet],
    samples_table: pa.Table,
    reader: TokenReader,
    *,
    samples: int,
    seed: int,
    digest: str,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Write the tokens of the greedy answer and of the first ``samples`` samples of every problem.

    ``samples_table`` are the graded answers; ``digest`` names all that these and the comparison
    depend on. A file with that digest is left as it is, and a killed call goes on with the chunk
    at which it was killed.
    """
    if path.exists() and (pq.read_schema(path).metadata or {}).get(_DIGEST) == digest.encode():
        return
    columns = ("set", "problem_id", "sample_index", "text")
    graded = {tuple(row[:3]): row[3] for row in _rows_of(samples_table, columns, samples)}
    parts = TableParts(path.with_name(f"{path.stem}.partial"), digest=digest)
    tables = []
    for index, chunk in enumerate(chunks(sets)):
        table = parts.read(index)
        if table is None:
            drawn = _drawn(chunk, samples=samples, seed=seed)
            table = _table(chunk, drawn, reader)
            parts.write(index, table)
        tables.append(table)
        if on_progress:
            on_progress(len(chunk.problems))
    whole = pa.concat_tables(tables) if tables else TOKENS.empty_table()
    _write(path, _graded_alone(whole, graded), digest=digest)
    parts.remove()


def _drawn(chunk: EvaluationSet, *, samples: int, seed: int) -> list[list[Completion]]:
    """The greedy answer and the first samples of every problem, not graded."""
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
    chunk: EvaluationSet, drawn: Sequence[Sequence[Completion]], reader: TokenReader
) -> pa.Table:
    piece = cache(reader.piece)
    flat = [
        (problem, c) for problem, group in zip(chunk.problems, drawn, strict=True) for c in group
    ]
    written = [c.written for _, c in flat]
    acting = {} if all(row is None for row in written) else {"written": written}
    compared = reader.compare(
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


def _graded_alone(table: pa.Table, graded: Mapping[tuple[object, ...], object]) -> pa.Table:
    """The rows whose answer is the one that was graded, without its text."""
    rows = _rows_of(table, ("set", "problem_id", "sample_index", "text"))
    same = [graded.get(tuple(row[:3])) == row[3] for row in rows]
    if not all(same):
        logger.warning(
            "token details: %d of %d answers differed when they were drawn again, because of "
            "rounding; they are left out",
            same.count(False),
            len(same),
        )
    return table.filter(pa.array(same, pa.bool_())).select(TOKENS.names)


def _rows_of(
    table: pa.Table, columns: Sequence[str], samples: int | None = None
) -> Iterator[tuple[object, ...]]:
    """Some columns row by row, of the first ``samples`` samples where that is given."""
    values = zip(*(table[name].to_pylist() for name in columns), strict=True)
    place = columns.index("sample_index")
    return (row for row in values if samples is None or row[place] < samples)


def _write(path: Path, table: pa.Table, *, digest: str) -> None:
    """Laid out anew, so that the bytes do not tell which pieces came from a file."""
    schema = TOKENS.with_metadata({_DIGEST: digest.encode(), VERSION: str(SCHEMA).encode()})
    columns = table.cast(TOKENS).combine_chunks().columns
    with atomic_path(path) as temporary:
        whole = pa.Table.from_arrays(columns, schema=schema)
        pq.write_table(whole, temporary, compression="zstd", row_group_size=ROWS_A_GROUP)
