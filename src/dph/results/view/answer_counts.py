"""How a run's answers to every problem came out, counted once, and where they lie in its file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from dph.errors import DataError
from dph.records import Outcome
from dph.runs.evaluate.samples_file import read_samples


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnswerCounts:
    """A run's answers to the problems of a set, one value a problem, in the order of the file.

    ``first`` and ``rows`` say where a problem's answers lie in samples.parquet; ``greedy`` is 1 or
    0, -1 without a greedy answer; ``outcomes`` and ``styles`` tell who has an answer of each.
    """

    ids: list[str]
    first: Int[np.ndarray, "problems"]
    rows: Int[np.ndarray, "problems"]
    samples: Int[np.ndarray, "problems"]
    correct: Int[np.ndarray, "problems"]
    greedy: Int[np.ndarray, "problems"]
    outcomes: Mapping[str, Bool[np.ndarray, "problems"]]
    styles: Mapping[str, Bool[np.ndarray, "problems"]]


def count_answers(path: Path) -> dict[str, AnswerCounts]:
    """The counts of every set in a samples file, by set.

    Raises:
        DataError: the file is damaged, or rows of a problem are not side by side.
    """
    table = read_samples(path, texts=False)
    if not table.num_rows:
        return {}
    sets, set_codes = _codes(table, "set")
    ids, id_codes = _codes(table, "problem_id")
    changed = (np.diff(set_codes) != 0) | (np.diff(id_codes) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    pairs = set_codes[starts].astype(np.int64) * len(ids) + id_codes[starts]
    if len(np.unique(pairs)) < len(pairs):
        raise DataError(f"{path}: rows of a problem are missing or not side by side")
    ends = np.append(starts[1:], table.num_rows)
    columns = _columns(table, starts)
    found = {}
    for code, name in enumerate(sets):
        mine = np.flatnonzero(set_codes[starts] == code)
        found[name] = AnswerCounts(
            ids=[ids[i] for i in id_codes[starts[mine]]],
            first=starts[mine],
            rows=(ends - starts)[mine],
            samples=columns["samples"][mine],
            correct=columns["correct"][mine],
            greedy=columns["greedy"][mine],
            outcomes=_having(table, "outcome", starts, mine),
            styles=_having(table, "style", starts, mine),
        )
    return found


def _columns(table: pa.Table, starts: np.ndarray) -> dict[str, np.ndarray]:
    drawn = table["sample_index"].to_numpy() >= 0
    names, codes = _codes(table, "outcome")
    right = codes == (names.index(Outcome.CORRECT) if Outcome.CORRECT in names else -1)
    greedy = np.add.reduceat((~drawn).astype(np.int32), starts) > 0
    greedy_right = np.add.reduceat((~drawn & right).astype(np.int32), starts) > 0
    return {
        "samples": np.add.reduceat(drawn.astype(np.int32), starts),
        "correct": np.add.reduceat((drawn & right).astype(np.int32), starts),
        "greedy": np.where(greedy, greedy_right.astype(np.int8), np.int8(-1)),
    }


def _having(
    table: pa.Table, column: str, starts: np.ndarray, mine: np.ndarray
) -> dict[str, np.ndarray]:
    names, codes = _codes(table, column)
    found = {n: np.logical_or.reduceat(codes == c, starts)[mine] for c, n in enumerate(names)}
    return {name: having for name, having in found.items() if having.any()}


def _codes(table: pa.Table, column: str) -> tuple[list[str], np.ndarray]:
    """The values of a column, and the number of each row's; -1 where it has none."""
    encoded = table[column].combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values: list[str] = encoded.dictionary.to_pylist()
    return values, encoded.indices.fill_null(-1).to_numpy()
