"""Speed and cost of ``dph grade sql`` on Spider's scored predictions, isolation included.

    python benchmarks/grade_sql.py --data ../shared/data/spider --repeat 1 10

One JSON line a rule and size: rows a second of wall time (the whole command, start of the
interpreter and of the workers included), CPU time a row (the command and its workers), and the
latter as a ratio to plain sqlite3 in this process: run gold and prediction, compare. "plain" opens
one connection a database and keeps it; "fresh" opens one a query, as isolation has to. Neither
of the two limits anything. ``wta_1`` is left out: its largest table is missing.
"""

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph.tasks.verifiers.sql.rules import RULES, SQLRule

COMMAND = "import sys; from dph.cli import main; sys.exit(main())"
Plain = dict[str, float]


def open_database(root: Path, db_id: str) -> sqlite3.Connection:
    """A connection that can read and is limited in nothing."""
    path = root / db_id / f"{db_id}.sqlite"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.text_factory = lambda text: text.decode(errors="ignore")
    return connection


def execute(connection: sqlite3.Connection, sql: str) -> list[Any] | None:
    """The rows, or None if the statement fails."""
    try:
        return connection.execute(sql).fetchall()
    except sqlite3.Error:
        return None


def plain_seconds(rows: list[dict[str, str]], root: Path, rule: SQLRule, *, keep: bool) -> float:
    """CPU seconds a row of executing and comparing in this process."""
    kept = lru_cache(maxsize=None)(partial(open_database, root))

    def run(db_id: str, sql: str) -> list[Any] | None:
        if keep:
            return execute(kept(db_id), sql)
        with closing(open_database(root, db_id)) as connection:
            return execute(connection, sql)

    started = time.process_time()
    for row in rows:
        gold = run(row["db_id"], row["gold_sql"])
        predicted = run(row["db_id"], row["pred_sql"])
        if gold is not None and predicted is not None:
            rule.compare(predicted, rule.keep(gold, row["gold_sql"]))
    return (time.process_time() - started) / len(rows)


def command_seconds(source: Path, databases: Path, rule: str, workers: int) -> tuple[float, float]:
    """Wall and CPU seconds of the whole command, its workers included."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = ["grade", "sql", "--input", str(source), "--databases", str(databases)]
    words += ["--rule", rule, "--out", str(source.with_name("out.parquet"))]
    words += ["--workers", str(workers)]
    subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, capture_output=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


def measure(
    table: pa.Table, databases: Path, rule: str, workers: int, plain: Plain
) -> dict[str, Any]:
    """One line of the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.parquet"
        pq.write_table(table, source)
        wall, cpu = command_seconds(source, databases, rule, workers)
    each = cpu / table.num_rows
    return {
        "rule": rule,
        "rows": table.num_rows,
        "workers": workers,
        "rows_per_second": round(table.num_rows / wall),
        "cpu_ms_per_row": round(each * 1e3, 3),
        "plain_cpu_ms_per_row": round(plain["plain"] * 1e3, 3),
        "fresh_cpu_ms_per_row": round(plain["fresh"] * 1e3, 3),
        "ratio_to_plain": round(each / plain["plain"], 2),
        "ratio_to_fresh": round(each / plain["fresh"], 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="holds database/ and the file")
    parser.add_argument("--rule", nargs="+", default=["spider", "bird"], choices=list(RULES))
    parser.add_argument("--repeat", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    table = pq.read_table(options.data / "scored_predictions_examples.parquet")
    table = table.filter(pc.not_equal(table["db_id"], "wta_1"))
    rows = table.select(["db_id", "gold_sql", "pred_sql"]).to_pylist()
    databases = options.data / "database"
    for rule in options.rule:
        plain = {
            name: plain_seconds(rows, databases, RULES[rule], keep=name == "plain")
            for name in ("plain", "fresh")
        }
        for repeat in options.repeat:
            many = pa.concat_tables([table] * repeat)
            print(json.dumps(measure(many, databases, rule, options.workers, plain)), flush=True)


if __name__ == "__main__":
    main()
