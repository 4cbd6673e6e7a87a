"""Memory and time of the search for copies, by the number of documents.

    python -m lab.benchmarks.dedup_memory --documents 100000,1000000
    python -m lab.benchmarks.dedup_memory --figure docs/pictures/dedup-memory.svg

The first measures and writes ROWS, the second draws them.

Signatures are made directly: random digests and bands, of which one document in ten is a copy and
one in ten shares a band with another. Each number of documents is measured in a process of its own,
from files of marks as workers write them to the files of copies that shards are cut by. Memory is
the process's peak; growth is told against the smallest number.
"""

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dph_corpus.dedup.index import CopyIndex
from dph_corpus.dedup.work import DIGEST_BYTES, MARKS, PREFERENCE_BYTES
from dph_corpus.settings import PRESETS
from dph_corpus.shards import shards_for
from dph_corpus.sorting import BatchWriter, in_order

_SHARD_DOCUMENTS = 50_000
_DOCUMENT_BYTES = 5_000
ROWS = Path(__file__).with_suffix(".csv")
_COLUMNS = ("documents", "peak_mb", "cpu_seconds", "dropped")


def write_marks(directory: Path, documents: int, seed: int = 0) -> list[Path]:
    """Marks of random documents, a file for each 50,000 of them."""
    paths = []
    for start in range(0, documents, _SHARD_DOCUMENTS):
        count = min(_SHARD_DOCUMENTS, documents - start)
        paths.append(directory / f"marks-{len(paths):05d}.parquet")
        with BatchWriter(paths[-1], MARKS) as writer:
            writer.add(_marks(np.random.default_rng([seed, start]), start, count))
    return paths


def _marks(rng: np.random.Generator, start: int, count: int) -> pa.Table:
    bands = PRESETS["opencoder"].bands
    digests = rng.integers(0, 2**63, (count, DIGEST_BYTES // 8), dtype=np.uint64)
    words = rng.integers(0, 2**63, (count, bands), dtype=np.uint64)
    chosen = rng.permutation(count)
    tenth = count // 10
    digests[chosen[:tenth]] = digests[chosen[tenth : 2 * tenth]]
    near, others = chosen[2 * tenth : 3 * tenth], chosen[3 * tenth : 4 * tenth]
    band = rng.integers(0, bands, tenth)
    words[near, band] = words[others, band]
    head = bytes(PREFERENCE_BYTES)
    keys = [head + f"source/{start + n:012d}.py".encode() for n in range(count)]
    sizes = np.full(count, _DOCUMENT_BYTES)
    columns = [keys, _binary(digests), _binary(words), sizes]
    return in_order(pa.table(columns, schema=MARKS), ["preference"])


def _binary(rows: "np.ndarray") -> pa.Array:
    width = rows.shape[1] * rows.itemsize
    places = np.arange(len(rows) + 1, dtype=np.int32) * width
    buffers = [None, pa.py_buffer(places), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def measure(documents: int) -> dict[str, float]:
    """Peak memory and processor time of the index of random documents, in this process."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        script = (
            "import sys; from lab.benchmarks.dedup_memory import *; write_marks(Path(sys.argv[1]), "
        )
        subprocess.run([sys.executable, "-c", f"{script}{documents})", name], check=True)
        marks = sorted(directory.glob("marks-*"))
        begin = time.process_time()
        index = CopyIndex(marks, documents, PRESETS["opencoder"], directory / "index")
        index.find(lambda _members: iter(()))
        count = shards_for(documents * _DOCUMENT_BYTES)
        places = [directory / f"cut-{n:05d}.parquet" for n in range(count)]
        index.write(places)
        dropped = sum(pa.parquet.read_metadata(place).num_rows for place in places)
        seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return dict(zip(_COLUMNS, (documents, peak, round(seconds, 1), dropped), strict=True))


def draw(rows: list[dict[str, float]], path: Path) -> None:
    """Peak memory by documents, and what 0.85 kB a document would be."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - a process that measures has none of it

    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    counts = [row["documents"] for row in rows]
    axes.plot(counts, [row["peak_mb"] for row in rows], "o-", color="#2a6f97", label="on disk")
    held = [rows[0]["peak_mb"] + 0.85e-3 * (n - counts[0]) for n in counts]
    axes.plot(counts, held, "--", color="#8d8d8d", label="0.85 kB a document, as before")
    axes.set(xscale="log", yscale="log", xlabel="documents", ylabel="peak memory, MB")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    """Measure each number of documents, or draw the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", default="", help="numbers to measure")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=ROWS, help="rows, as csv")
    parser.add_argument("--figure", type=Path, help="picture of the rows")
    options = parser.parse_args()
    if options.one:
        print(",".join(f"{value:.10g}" for value in measure(options.one).values()))
        return
    if options.documents:
        write_rows(options.out, options.documents.split(","))
    if options.figure:
        with options.out.open(newline="", encoding="utf-8") as file:
            rows = [{name: float(row[name]) for name in _COLUMNS} for row in csv.DictReader(file)]
        draw(rows, options.figure)


def write_rows(path: Path, counts: Sequence[str]) -> None:
    """Measure, tell and write row after row, each in a process of its own."""
    rows: list[dict[str, float]] = []
    for count in counts:
        command = [sys.executable, "-m", "lab.benchmarks.dedup_memory", "--one", count]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(dict(zip(_COLUMNS, map(float, told.strip().split(",")), strict=True)))
        row, first = rows[-1], rows[0]
        grown = (row["peak_mb"] - first["peak_mb"]) * 1e6
        more = row["documents"] - first["documents"]
        growth = f"{grown / more:.1f} bytes more a document" if more else "the smallest"
        print(
            f"{count} documents: {row['peak_mb']:.0f} MB, {growth}, {row['cpu_seconds']:g} s, "
            f"{row['dropped']:.0f} dropped",
            flush=True,
        )
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
