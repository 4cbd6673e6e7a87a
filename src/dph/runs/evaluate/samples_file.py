"""Evaluation samples as parquet, every answer with its verdict, and scores read back from them.

There is one row per sample: sets in the order given, problems in the order of the set, samples by
index with the greedy answer first, as sample_index -1. The order is part of the format, so equal
samples give equal files. ``tokens.parquet`` is also read here, without torch.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph.errors import DataError
from dph.records import GradedCompletion, Outcome
from dph.runs.directory import SAMPLES as SAMPLES_NAME
from dph.runs.evaluate.answers.read import answer_files, by_sets, read_answers
from dph.runs.evaluate.metrics import style_shares
from dph.runs.evaluate.scores import SetScores
from dph.runs.evaluate.tables import digest_of, parts_by_set, read_table, write_table

logger = logging.getLogger(__name__)

GREEDY_INDEX = -1

SAMPLES = pa.schema(
    [
        ("set", pa.string()),
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("text", pa.string()),
        ("tokens", pa.int32()),
        ("finished", pa.bool_()),
        ("outcome", pa.string()),
        ("reward", pa.float64()),
        ("reason", pa.string()),
        ("style", pa.string()),
    ]
)
_TEXT_COLUMNS = ("text", "reason")
ROWS_A_GROUP = 16_384
"""Rows per parquet row group: one problem's answers can be read without the whole file."""
_FOREIGN_MARK = {b"dph.foreign": b"1"}


def samples_table(
    set_name: str, groups: Sequence[Sequence[GradedCompletion]], *, greedy: bool = False
) -> pa.Table:
    """Graded completions as rows; ``greedy`` marks them as greedy answers."""
    return pa.Table.from_pylist(
        [
            {
                "set": set_name,
                "problem_id": graded.completion.problem_id,
                "sample_index": GREEDY_INDEX if greedy else graded.completion.sample_index,
                "text": graded.completion.text,
                "tokens": graded.completion.length,
                "finished": graded.completion.finished,
                **graded.verdict_columns(),
            }
            for group in groups
            for graded in group
        ],
        schema=SAMPLES,
    )


def write_samples(path: Path, table: pa.Table, *, digest: str) -> None:
    """Write ``table`` atomically; ``digest`` identifies the settings that produced it."""
    write_table(path, table, digest=digest, rows_a_group=ROWS_A_GROUP)


def read_samples(path: Path, *, texts: bool = True) -> pa.Table:
    """Read a samples file; ``texts=False`` skips ``text`` and ``reason``, most of its size.

    ``path`` may also be a file or directory of another tool's answers; their tokens are null.

    Raises:
        DataError: it is missing or not parquet, or has other columns, nulls or unknown outcomes.
    """
    if is_foreign(path):
        table = _foreign_table(path)
        return table if texts else table.drop_columns([*_TEXT_COLUMNS])
    try:
        schema = pq.read_schema(path)
        wanted = [name for name in schema.names if texts or name not in _TEXT_COLUMNS]
        table = pq.read_table(path, columns=wanted)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from error
    except pa.ArrowException as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if not schema.equals(SAMPLES):
        raise DataError(
            f"{path} is not a samples file: its columns are {', '.join(schema.names)}, expected "
            f"{', '.join(SAMPLES.names)}; give a file of other answers another name"
        )
    for column in table.column_names:
        if column != "style" and table[column].null_count:
            raise DataError(f"{path} is damaged: {column!r} is missing in some rows")
    if unknown := set(table["outcome"].unique().to_pylist()) - set(Outcome):
        raise DataError(f"{path} is damaged: unknown outcome {min(unknown)!r}")
    return table


def is_foreign(path: Path) -> bool:
    """True if ``path`` has another tool's answers, and is not a samples file of this package."""
    if path.name == SAMPLES_NAME or not answer_files(path):
        return False
    if path.is_dir() or not path.name.endswith(".parquet"):
        return True
    try:
        return not pq.read_schema(path).equals(SAMPLES)
    except (OSError, pa.ArrowException):
        return True


def _foreign_table(path: Path) -> pa.Table:
    rows = [
        {
            "set": name,
            "problem_id": problem_id,
            "sample_index": GREEDY_INDEX if answer.index == GREEDY_INDEX else index,
            "text": answer.text,
            "tokens": None,
            "finished": True,
            "outcome": answer.outcome.value,
            "reward": answer.reward,
            "reason": answer.reason,
            "style": answer.style,
        }
        for name, problems in by_sets(read_answers(path)).items()
        for problem_id, answers in problems.items()
        for index, answer in enumerate(answers, -int(answers[0].index == GREEDY_INDEX))
    ]
    return pa.Table.from_pylist(rows, schema=SAMPLES.with_metadata(_FOREIGN_MARK))


def samples_digest(path: Path) -> str | None:
    """The digest of a samples file; None if it has none or cannot be read."""
    try:
        return digest_of(path) or None
    except DataError:
        return None


TOKENS_SCHEMA = 1


def read_token_details(path: Path) -> pa.Table:
    return read_table(path, schema=TOKENS_SCHEMA)


def read_scores(path: Path) -> dict[str, SetScores]:
    """Scores of every set in a samples file."""
    return comparable_scores({str(path): read_samples(path)})[str(path)]


def comparable_scores(tables: Mapping[str, pa.Table]) -> dict[str, dict[str, SetScores]]:
    """Scores of every set in several samples tables, by table name.

    A problem whose gold answer proved ungradable (BAD_GOLD) says nothing about a model. It is left
    out of all tables, with a warning, because grading may have reached the gold answer for one
    model but not for another. If a table has another tool's answers, problems that are missing
    from any table are left out too, and all tables list them in the order of the first.
    """
    bad = _bad_gold(tables.values())
    for name, ids in _not_in_all(tables).items():
        bad[name] = [*bad.get(name, ()), *ids]
    scores: dict[str, dict[str, SetScores]] = {}
    for label, table in tables.items():
        if crashed := table.filter(pc.field("outcome") == Outcome.CRASHED.value).num_rows:
            logger.warning(
                "%s: the verifier crashed on %d of %d samples, which count as wrong; dph passk "
                "leaves them out",
                *(label, crashed, table.num_rows),
            )
        try:
            scores[label] = {
                name: _set_scores(name, _without(part, bad.get(name, ())))
                for name, part in parts_by_set(table)
            }
        except DataError as error:
            raise DataError(f"{label}: {error}") from error
    if _has_foreign(tables):
        _put_in_one_order(scores)
    return scores


def _put_in_one_order(scores: Mapping[str, dict[str, SetScores]]) -> None:
    """Put the problems of every set in the order of the first table; tools have their own."""
    orders: dict[str, tuple[str, ...]] = {}
    for sets in scores.values():
        for name, part in sets.items():
            order = orders.setdefault(name, part.problem_ids)
            if order != part.problem_ids and set(order) == set(part.problem_ids):
                sets[name] = part.only(order)


def _set_scores(name: str, table: pa.Table) -> SetScores:
    ids, indices = table["problem_id"].to_numpy(), table["sample_index"].to_numpy()
    if len(indices) == 0 or indices.max() < 0:
        raise DataError(f"set {name!r} has no graded samples")
    first = GREEDY_INDEX if indices.min() < 0 else 0
    width = int(indices.max()) - first + 1
    if len(ids) % width or not np.array_equal(
        indices, np.tile(np.arange(first, first + width), len(ids) // width)
    ):
        raise DataError(f"set {name!r}: rows are missing, repeated or out of order")
    by_problem = ids.reshape(-1, width)
    problem_ids = tuple(by_problem[:, 0].tolist())
    if (by_problem != by_problem[:, :1]).any() or len(set(problem_ids)) < len(problem_ids):
        raise DataError(f"set {name!r}: rows of a problem are missing or not adjacent")
    correct = (table["outcome"].to_numpy() == Outcome.CORRECT.value).reshape(-1, width)
    cut_off = ~table["finished"].to_numpy().reshape(-1, width)
    sampled = -first  # column of the first sample: 1 after a greedy answer, else 0
    return SetScores(
        problem_ids=problem_ids,
        correct=correct[:, sampled:],
        rewards=table["reward"].to_numpy().reshape(-1, width)[:, sampled:],
        greedy=correct[:, 0] if sampled else None,
        cut_off=float(cut_off[:, sampled:].mean()),
        shares=style_shares(
            table.filter(pc.field("sample_index") >= 0)["style"].drop_null().to_pylist()
        ),
    )


def _bad_gold(tables: Iterable[pa.Table]) -> dict[str, list[str]]:
    """Problems that could not be graded in some table, by set; logs a warning."""
    bad: dict[str, list[str]] = {}
    for table in tables:
        found = table.filter(pc.field("outcome") == Outcome.BAD_GOLD.value)
        for row in found.select(["set", "problem_id"]).to_pylist():
            bad.setdefault(row["set"], []).append(row["problem_id"])
    distinct = {name: list(dict.fromkeys(ids)) for name, ids in bad.items()}
    for name, ids in distinct.items():
        logger.warning(
            "set %r: %d problem(s) left out: the gold answer cannot be graded, for example %r",
            *(name, len(ids), ids[0]),
        )
    return distinct


def _has_foreign(tables: Mapping[str, pa.Table]) -> bool:
    return any(_FOREIGN_MARK.keys() & (table.schema.metadata or {}) for table in tables.values())


def _not_in_all(tables: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    """Problems missing from some table, by set, if any is another tool's; logs a warning."""
    if not _has_foreign(tables):
        return {}
    sets: dict[str, dict[str, list[str]]] = {}
    for label, table in tables.items():
        for name, part in parts_by_set(table):
            sets.setdefault(name, {})[label] = part["problem_id"].unique().to_pylist()
    found = {}
    for name, by_label in sets.items():
        every = dict.fromkeys(chain.from_iterable(by_label.values()))
        common = set(every).intersection(*by_label.values())
        if not common:
            ids = ", ".join(f"{label} has {ids[0]!r}" for label, ids in by_label.items())
            raise DataError(f"set {name!r}: no problem is in all files: {ids}")
        if lacking := [one for one in every if one not in common]:
            logger.warning(
                "set %r: %d of %d problems are left out, since not all files have them, for "
                "example %r",
                *(name, len(lacking), len(every), lacking[0]),
            )
            found[name] = lacking
    return found


def _without(table: pa.Table, problem_ids: Collection[str]) -> pa.Table:
    return table.filter(~pc.field("problem_id").isin(pa.array(problem_ids, pa.string())))
