"""Thresholds looked at again without measuring: what other conditions would drop, and of whom.

A filter leaves every signal of every document on disk. ``read_signals`` reads them as columns, and
``outcome_of`` judges them by any thresholds of the same rules, as the filter would have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dph.errors import DataError
from dph_corpus.rules.presets import Condition, FilterRule, Preset, thinned_drops
from dph_corpus.shards import DROPPED, KEPT, open_corpus

VERDICTS_FILE, SIGNALS_FILE = "verdicts.parquet", "signals.parquet"


@dataclass(frozen=True)
class SignalColumns:
    """The documents that rules read, each with its kind and its signals.

    Args:
        ids: of the documents.
        kinds: of ``presets.KINDS``, one a document.
        sizes: bytes.
        values: a column for each signal; NaN where a document has no value.
    """

    ids: NDArray[np.object_]
    kinds: NDArray[np.object_]
    sizes: NDArray[np.int64]
    values: Mapping[str, NDArray[np.float64]]


def read_signals(directory: Path) -> SignalColumns:
    """The signals that a filter left in ``directory``; 8 bytes for each and each document."""
    if (stage := open_corpus(directory).manifest.stage) != "filter":
        raise DataError(f"{directory} was written by {stage}: tune reads what a filter has written")
    kinds = _column_pair(directory / VERDICTS_FILE, "id", "kind")
    ids = np.array(sorted(kinds), dtype=object)
    places = {name: place for place, name in enumerate(ids)}
    values: dict[str, NDArray[np.float64]] = {}
    with pq.ParquetFile(directory / SIGNALS_FILE) as file:
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group)
            # A document that no rule reads has signals and no verdict.
            rows = np.array([places.get(name, -1) for name in table["id"].to_pylist()], np.intp)
            signals = table["signal"].combine_chunks().dictionary_encode()
            numbers = table["value"].to_numpy()
            codes = signals.indices.to_numpy()
            for code, name in enumerate(signals.dictionary.to_pylist()):
                column = values.setdefault(name, np.full(len(ids), np.nan))
                chosen = (codes == code) & (rows >= 0)
                column[rows[chosen]] = numbers[chosen]
    sizes = _sizes(directory)
    return SignalColumns(
        ids,
        np.array([kinds[name] for name in ids], dtype=object),
        np.array([sizes[name] for name in ids], dtype=np.int64),
        values,
    )


def _column_pair(path: Path, key: str, value: str) -> dict[str, Any]:
    try:
        with pq.ParquetFile(path) as file:
            found: dict[str, Any] = {}
            for group in range(file.metadata.num_row_groups):
                table = file.read_row_group(group, columns=[key, value])
                found.update(zip(table[key].to_pylist(), table[value].to_pylist(), strict=True))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(f"cannot read {path}, filter again to have it: {error}") from error
    return found


def _sizes(directory: Path) -> dict[str, int]:
    """Bytes of each document, kept or dropped."""
    sizes: dict[str, int] = {}
    for table in (KEPT, DROPPED):
        for path in sorted((directory / table).glob("*.parquet")):
            sizes |= _column_pair(path, "id", "bytes")
    return sizes


@dataclass(frozen=True)
class FilterOutcome:
    """Outcome of rules on documents; masks are over the documents of ``SignalColumns``.

    Args:
        drops: for each rule, the documents that meet its condition, after the coin of thinned ones.
    """

    drops: Mapping[str, NDArray[np.bool_]]

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """The documents that any rule drops."""
        found: NDArray[np.bool_] = self._count > 0
        return found

    def alone(self, rule: str) -> NDArray[np.bool_]:
        """The documents that only ``rule`` drops."""
        found: NDArray[np.bool_] = self.drops[rule] & (self._count == 1)
        return found

    @property
    def _count(self) -> NDArray[np.int64]:
        """Rules that drop each document."""
        found: NDArray[np.int64] = np.sum([*self.drops.values()], axis=0, dtype=np.int64)
        return found


def outcome_of(preset: Preset, columns: SignalColumns) -> FilterOutcome:
    """Outcome of the rules of ``preset`` on measured signals; equal to that of the filter."""
    drops = {}
    for name, rule in preset.rules.items():
        found = np.zeros(len(columns.ids), dtype=np.bool_)
        if (values := columns.values.get(name)) is not None:
            for kind, condition in rule.conditions.items():
                found |= (columns.kinds == kind) & _holds(condition, values)
        for place in np.flatnonzero(found).tolist() if rule.thinned else ():
            found[place] = thinned_drops(columns.ids[place], name)
        drops[name] = found
    return FilterOutcome(drops)


_COMPARED = {"<": np.less, ">": np.greater, "==": np.equal}


def _holds(condition: Condition, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask of the values that meet a condition; a missing one never does."""
    found = np.zeros(len(values), dtype=np.bool_)
    for sign, threshold in condition.parts:
        found |= _COMPARED[sign](values, threshold)
    return found


# A histogram: the values of a signal, and the cuts through them.

BINS = 40


@dataclass(frozen=True)
class SignalHistogram:
    """The values that documents under one condition have of a rule's signal.

    Args:
        condition: from which on the rule fires.
        edges: ``BINS`` + 1, ascending, equal or in equal ratios; the outermost bins hold all that
            lies outside.
        counts: documents in each bin.
    """

    condition: Condition
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


def histogram(rule: FilterRule, columns: SignalColumns) -> SignalHistogram | None:
    """The histogram of a rule's first condition that documents of ``columns`` are under."""
    for condition in dict.fromkeys(rule.conditions.values()):
        kinds = [kind for kind, other in rule.conditions.items() if other == condition]
        chosen = np.isin(columns.kinds, kinds)
        if chosen.any():
            values = columns.values.get(rule.name, np.full(len(columns.ids), np.nan))[chosen]
            there = values[~np.isnan(values)]
            edges = _edges(there, condition)
            counts, _ = np.histogram(np.clip(there, edges[0], edges[-1]), edges)
            return SignalHistogram(condition, edges, counts)
    return None


_WIDE = 100.0


def _edges(values: NDArray[np.float64], condition: Condition) -> NDArray[np.float64]:
    """Bins from the first to the 99th percentile and past every cut.

    Equal ones; where that is over 100 times the median and nothing is negative, equal in log(1+x).
    """
    cuts = [threshold for _, threshold in condition.parts]
    low, high = np.quantile(values, [0.01, 0.99]) if len(values) else (min(cuts), max(cuts))
    low, high = min(low, *cuts), max(high, *cuts)
    middle = float(np.median(values)) if len(values) else 0.0
    if low >= 0 and high > _WIDE * (1 + middle):
        return np.expm1(np.linspace(0.0, np.log1p(high * 1.2), BINS + 1))
    room = (high - low) * 0.05 or 0.5
    return np.linspace(low - room, high + room, BINS + 1)
