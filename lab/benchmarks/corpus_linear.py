"""Processor time of the stages of a corpus, by the size of the corpus.

    python -m lab.benchmarks.corpus_linear --megabytes 50,500,50,1500,50
    python -m lab.benchmarks.corpus_linear --page docs/cookbook.md

The first measures, the second writes the table of the rows.

Texts are made directly: functions of random names and numbers, in files of 1 to 40 kB; one file in
ten is a copy of an earlier one, one in ten differs from one in a single name. Every stage is the
command itself with one worker, in a process of its own; its time is that of the process and its
workers, user and system. Sizes are measured in the order given: name a small one several times,
before, between and after the large ones, to see the effect of other work on the machine. Writes
ROWS, row by row.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from lab.benchmarks.marked_blocks import write_block

ROWS = Path(__file__).with_suffix(".csv")
COLUMNS = ("megabytes", "stage", "cpu_seconds", "peak_mb", "documents")
STAGES = ("ingest", "dedup", "transform", "filter")
_FILE_BYTES = 50_000_000
_WORDS = 20_000


def texts(megabytes: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Paths and texts of random files, ``megabytes`` together."""
    rng = np.random.default_rng(seed)
    letters = rng.integers(97, 123, (_WORDS, 7), dtype=np.uint8)
    words = [bytes(row).decode() for row in letters]
    size, number, recent = 0, 0, [""]
    while size < megabytes * 1_000_000:
        draw, number = rng.random(), number + 1
        other = recent[int(rng.integers(len(recent)))]
        if draw < 0.1 and other:
            text = other
        elif draw < 0.2 and other:
            name = words[int(rng.integers(_WORDS))]
            text = other.replace("def ", f"def {name}_", 1)
        else:
            text = _text(rng, words)
            recent = [*recent[-99:], text]
        size += len(text)
        yield f"{number % 1000:03d}/{number}.py", text


def _text(rng: np.random.Generator, words: list[str]) -> str:
    """A file of functions, 1 to 40 kB, small ones more often."""
    wanted = 1_000 * 40 ** rng.random()
    parts: list[str] = []
    size = 0
    while size < wanted:
        a, b, c, d, e = (words[n] for n in rng.integers(_WORDS, size=5))
        number = int(rng.integers(1_000_000))
        parts.append(
            f"def {a}({b}, {c}={number}):\n"
            f'    """Return the {d} of {e}."""\n'
            f"    {d} = [{b} + n for n in range({c})]\n"
            f"    if {d} and {b} > {number % 97}:\n"
            f"        return sum({d})  # {e} {a}\n"
            f"    return {e}_{a}({d}, {b})\n\n\n"
        )
        size += len(parts[-1])
    return "".join(parts)


def write_files(directory: Path, megabytes: int) -> None:
    """The texts as files of JSON lines, 50 MB each."""
    file, left = None, 0
    for number, (path, text) in enumerate(texts(megabytes)):
        if file is None or left <= 0:
            if file is not None:
                file.close()
            file = (directory / f"files-{number:09d}.jsonl").open("w", encoding="utf-8")
            left = _FILE_BYTES
        file.write(json.dumps({"path": path, "text": text}) + "\n")
        left -= len(text)
    if file is not None:
        file.close()


def measure(megabytes: int, stages: tuple[str, ...], scratch: Path | None) -> Iterator[list[float]]:
    """A row for each of ``stages``; those between are run, too, and give none."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        directory = Path(name)
        raw = directory / "raw"
        raw.mkdir()
        write_files(raw, megabytes)
        source = str(raw)
        for stage in STAGES[: STAGES.index(stages[-1]) + 1]:
            out = str(directory / stage)
            given = [source] if stage == "ingest" else ["--input", source]
            command = [sys.executable, "-m", "dph", "corpus", stage, *given, "--out", out]
            process = subprocess.Popen(
                [*command, "--workers", "1", "--json"], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            manifest = json.loads(process.stdout.read())
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f"{stage} ended with {status}")
            seconds = round(used.ru_utime + used.ru_stime, 2)
            source = out
            if stage in stages:
                count = sum(row["documents"] for row in manifest["flow"]["passages"])
                yield [megabytes, stage, seconds, used.ru_maxrss // 1000, count]


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """A row for each stage and size, with the growth over the size below it."""
    lines = [
        "| stage | MB | documents | processor time, s | s for each MB more | peak memory, MB |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for stage in STAGES:
        sizes = sorted({int(row["megabytes"]) for row in rows if row["stage"] == stage})
        before = (0, 0.0)
        for size in sizes:
            same = [row for row in rows if (row["stage"], row["megabytes"]) == (stage, str(size))]
            seconds = median(float(row["cpu_seconds"]) for row in same)
            growth = f"{(seconds - before[1]) / (size - before[0]):.4f}" if before[0] else ""
            facts = (same[0]["documents"], f"{seconds:.1f}", growth, same[0]["peak_mb"])
            lines.append(f"| {' | '.join((stage, str(size), *facts))} |")
            before = (size, seconds)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure each size and write row after row, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", default="50,500,50", help="sizes, in this order")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--scratch", type=Path, help="directory for the texts")
    parser.add_argument("--out", type=Path, default=ROWS, help="rows, as csv, added to")
    parser.add_argument("--page", type=Path, help="page with a place for the table of the rows")
    options = parser.parse_args()
    if options.page:
        with options.out.open(newline="", encoding="utf-8") as file:
            write_block(options.page, "linear", table([*csv.DictReader(file)]))
        return
    stages = tuple(name for name in STAGES if name in options.stages.split(","))
    new = not options.out.exists()
    with options.out.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(COLUMNS)
        for size in map(int, options.megabytes.split(",")):
            for row in measure(size, stages, options.scratch):
                writer.writerow(row)
                file.flush()
                print(*row, f"{row[2] / row[0]:.4f} s a MB", flush=True)


if __name__ == "__main__":
    main()
