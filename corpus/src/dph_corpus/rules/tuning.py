"""Thresholds looked at again without measuring: what other conditions would drop, and of whom.

A filter leaves every signal of every document on disk. ``read_signals`` reads them as columns, and
``outcome_of`` judges them by any thresholds of the same rules, as the filter would have.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
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
        fires: for each rule, the documents that meet its condition.
        drops: the same with the coin of thinned rules.
    """

    fires: Mapping[str, NDArray[np.bool_]]
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
    fires, drops = {}, {}
    for name, rule in preset.rules.items():
        found = np.zeros(len(columns.ids), dtype=np.bool_)
        if (values := columns.values.get(name)) is not None:
            for kind, condition in rule.conditions.items():
                found |= (columns.kinds == kind) & _holds(condition, values)
        fires[name] = drops[name] = found
        if rule.thinned:
            drops[name] = found.copy()
            for place in np.flatnonzero(found).tolist():
                drops[name][place] = thinned_drops(columns.ids[place], name)
    return FilterOutcome(fires, drops)


_COMPARED = {"<": np.less, ">": np.greater, "==": np.equal}


def _holds(condition: Condition, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask of the values that meet a condition; a missing one never does."""
    found = np.zeros(len(values), dtype=np.bool_)
    for sign, threshold in condition.parts:
        found |= _COMPARED[sign](values, threshold)
    return found


# Histograms: the values of a signal, and the cuts through them.

BINS = 40


@dataclass(frozen=True)
class SignalHistogram:
    """The values that documents under one condition have of a rule's signal.

    Args:
        kinds: of files, all with that condition.
        condition: from which on the rule fires.
        edges: ``BINS`` + 1, ascending, equal or in equal ratios; the outermost bins hold all that
            lies outside.
        counts: documents in each bin.
        missing: documents without a value.
        fires: documents that meet the condition.
    """

    kinds: Sequence[str]
    condition: Condition
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    missing: int
    fires: int


def histograms(rule: FilterRule, columns: SignalColumns) -> list[SignalHistogram]:
    """A histogram for each condition of a rule, of the documents that it is about."""
    by_condition: dict[Condition, list[str]] = {}
    for kind, condition in rule.conditions.items():
        by_condition.setdefault(condition, []).append(kind)
    found = []
    for condition, kinds in by_condition.items():
        chosen = np.isin(columns.kinds, kinds)
        if not chosen.any():
            continue
        values = columns.values.get(rule.name, np.full(len(columns.ids), np.nan))[chosen]
        there = values[~np.isnan(values)]
        edges = _edges(there, condition)
        counts, _ = np.histogram(np.clip(there, edges[0], edges[-1]), edges)
        fires = int(_holds(condition, values).sum())
        missing = len(values) - len(there)
        found.append(SignalHistogram(kinds, condition, edges, counts, missing, fires))
    return found


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


# A page of histograms: every signal that a rule reads, with the cut and what it drops.
#
# One HTML file without scripts. Bars beyond a cut have the colour of what is dropped.

_WIDTH, _HEIGHT, _BASE = 480, 110, 92
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ --ink: #1f2430; --quiet: #5c6370; --page: #fff; --stays: #7a8aa6; --goes: #c2452d;
  color-scheme: light dark; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e8ec; --quiet: #a3aab6; --page: #16181d; --stays: #6f82a8; --goes: #e8735a; }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 34rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ font-size: 1rem; margin: 2rem 0 0; overflow-wrap: anywhere; }}
p {{ margin: 0.2rem 0; }} .quiet {{ color: var(--quiet); font-size: 0.87rem; }}
svg {{ width: 100%; height: auto; display: block; }}
.stays {{ fill: var(--stays); }} .goes {{ fill: var(--goes); }}
line {{ stroke: var(--goes); stroke-width: 1.5; stroke-dasharray: 4 3; }}
text {{ fill: var(--quiet); font-size: 11px; }}
</style></head><body>
"""


def histogram_page(preset: Preset, columns: SignalColumns) -> str:
    """The page, as HTML; rules that drop most come first."""
    outcome = outcome_of(preset, columns)
    title = f"Signals and cuts of {preset.name}"
    parts = [_HEAD.format(title=escape(title)), f"<h1>{escape(title)}</h1>"]
    total, gone = len(columns.ids), int(outcome.dropped.sum())
    parts.append(
        f"<p>{gone} of {total} documents are dropped, {_megabytes(columns, outcome.dropped)} MB of "
        f"{columns.sizes.sum() / 1e6:.2f}. Heights are square roots of counts, so that few "
        f"documents are visible; the outermost bars hold all that lies outside.</p>"
    )
    for rule in sorted(preset.rules.values(), key=lambda r: -int(outcome.drops[r.name].sum())):
        parts += _rule(rule, columns, outcome)
    return "\n".join([*parts, "</body></html>\n"])


def _rule(rule: FilterRule, columns: SignalColumns, outcome: FilterOutcome) -> Iterator[str]:
    shown = histograms(rule, columns)
    if not shown:
        return
    drops = outcome.drops[rule.name]
    yield f"<h2>{escape(rule.name)}</h2><p>{escape(rule.catches)}</p>"
    yield (
        f'<p class="quiet">drops {int(drops.sum())} documents ({_megabytes(columns, drops)} MB), '
        f"{int(outcome.alone(rule.name).sum())} of them alone"
        f"{'; 4 of 5 that it fires on' if rule.thinned else ''}</p>"
    )
    for each in shown:
        yield _chart(each)


def _chart(found: SignalHistogram) -> str:
    def x(value: float) -> float:
        places = np.linspace(0.0, _WIDTH, len(found.edges))
        return float(np.interp(value, found.edges, places))

    width = _WIDTH / len(found.counts) - 1
    heights = np.sqrt(found.counts / max(1, int(found.counts.max()))) * (_BASE - 14)
    middles = (found.edges[:-1] + found.edges[1:]) / 2
    bars = "".join(
        f'<rect class="{"goes" if found.condition.holds(float(middle)) else "stays"}" '
        f'x="{x(float(edge)):.1f}" y="{_BASE - height:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}"><title>{count} documents near {middle:.4g}</title></rect>'
        for edge, middle, height, count in zip(
            found.edges, middles, heights.tolist(), found.counts.tolist(), strict=False
        )
        if count
    )
    cuts = "".join(
        f'<line x1="{x(cut):.1f}" x2="{x(cut):.1f}" y1="2" y2="{_BASE}"/>'
        f'<text x="{x(cut):.1f}" y="{_HEIGHT - 4}" text-anchor="middle">{cut:g}</text>'
        for _, cut in found.condition.parts
    )
    kinds = ", ".join(found.kinds)
    missing = f", {found.missing} without a value" if found.missing else ""
    label = f"{found.condition.text} ({kinds}): fires on {found.fires} of {found.counts.sum()}"
    return (
        f'<p class="quiet">{escape(label)}{missing}</p>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{bars}{cuts}</svg>"
    )


def _megabytes(columns: SignalColumns, chosen: NDArray[np.bool_]) -> str:
    return f"{columns.sizes[chosen].sum() / 1e6:.2f}"
