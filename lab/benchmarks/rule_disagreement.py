"""How the graders' rules disagree on real answers, as the tables of docs/graders.md.

    python lab/benchmarks/rule_disagreement.py --data ../shared/data --write docs/graders.md

Grades ``spider/scored_predictions_examples.parquet`` (2,068 predictions of CodeS-1B and GPT-4 on
Spider's dev set) by every SQL rule, and ``math/scored_cases_examples.parquet`` (1,688 answers) by
both math verifiers, through ``dph grade``. A part whose data is not there is left out.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from marked_blocks import write_block

from dph.cli import main as dph

SQL_RULES = ("spider", "bird", "strict", "bird_soft_f1", "cartesian")
MATH_VERIFIERS = ("math", "math_qwen")
Rows = list[dict[str, Any]]


def grade(words: Sequence[object], target: Path) -> Rows:
    """The rows that ``dph grade <words> --out target`` writes."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = dph(["grade", *map(str, words), "--out", str(target)])
    if code:
        sys.exit(err.getvalue())
    return pq.read_table(target).to_pylist()


def accepted(rows: Rows) -> list[bool]:
    """Which rows are CORRECT."""
    return [row["outcome"] == "CORRECT" for row in rows]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table; all columns but the first are numbers."""
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def sql_tables(data: Path, scratch: Path, workers: int) -> Iterator[str]:
    """Shares by rule and model, and what one rule accepts that another does not."""
    source = data / "scored_predictions_examples.parquet"
    graded = {
        rule: grade(
            [
                *("sql", "--input", source, "--databases", data / "database"),
                *("--rule", rule, "--workers", workers),
            ],
            scratch / f"{rule}.parquet",
        )
        for rule in SQL_RULES
    }
    yield from _sql_shares(graded)
    right = {rule: accepted(rows) for rule, rows in graded.items()}
    yield (
        "Predictions that the rule of the row accepts and that of the column does not. "
        "`bird_soft_f1` and `cartesian` accept at a reward of 1.\n"
    )
    yield table(
        ["accepted by, but not by", *(f"`{rule}`" for rule in SQL_RULES)],
        [
            [f"`{one}`", *("" if one == other else _only(right, one, other) for other in SQL_RULES)]
            for one in SQL_RULES
        ],
    )


def _sql_shares(graded: Mapping[str, Rows]) -> Iterator[str]:
    rows = graded[SQL_RULES[0]]
    models = sorted({row["source_model"] for row in rows})
    yield (
        f"{len(rows)} predictions, {' and '.join(models)}: mean reward in per cent, and how many "
        "predictions earn something without being accepted.\n"
    )
    lines = []
    for rule, of_rule in graded.items():
        rewards = [[r["reward"] for r in of_rule if r["source_model"] == model] for model in models]
        partial = sum(1 for row in of_rule if row["reward"] > 0 and row["outcome"] != "CORRECT")
        lines.append(
            [f"`{rule}`", *(f"{100 * sum(each) / len(each):.1f}" for each in rewards), partial]
        )
    yield table(["rule", *models, "partial reward"], lines)


def _only(right: Mapping[str, Sequence[bool]], one: str, other: str) -> int:
    return sum(a and not b for a, b in zip(right[one], right[other], strict=True))


def math_tables(data: Path, scratch: Path, workers: int) -> Iterator[str]:
    """What each verifier accepts, by group of answers, and against the labels."""
    source = data / "scored_cases_examples.parquet"
    graded = {
        name: grade(
            ["math", "--input", source, "--verifier", name, "--workers", workers],
            scratch / f"{name}.parquet",
        )
        for name in MATH_VERIFIERS
    }
    rows = graded["math"]
    right = {name: accepted(each) for name, each in graded.items()}
    yield (
        f"{len(rows)} answers: how many each verifier accepts, and how many only one of them does. "
        "A label is known by source or construction.\n"
    )
    yield table(
        ["answers", "number", "`math`", "`math_qwen`", "only `math`", "only `math_qwen`"],
        [_math_line(name, places, right) for name, places in _groups(rows)],
    )


def _math_line(
    name: str, places: Sequence[int], right: Mapping[str, Sequence[bool]]
) -> list[object]:
    chosen = {rule: [values[place] for place in places] for rule, values in right.items()}
    one, other = MATH_VERIFIERS
    return [
        name,
        len(places),
        *(sum(values) for values in chosen.values()),
        _only(chosen, one, other),
        _only(chosen, other, one),
    ]


def _groups(rows: Rows) -> Iterator[tuple[str, list[int]]]:
    for group in sorted({row["group"] for row in rows}):
        yield group, [place for place, row in enumerate(rows) if row["group"] == group]
    for label, words in ((True, "labelled right"), (False, "labelled wrong")):
        yield words, [place for place, row in enumerate(rows) if row["label"] is label]


def main() -> None:
    """Print the tables, and write them where asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", type=Path, help="replace the tables of this file")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    parts = (("sql", "spider", sql_tables), ("math", "math", math_tables))
    with tempfile.TemporaryDirectory() as scratch:
        for name, directory, make in parts:
            if not (options.data / directory).is_dir():
                print(f"no {options.data / directory}: left out")
                continue
            text = "\n".join(make(options.data / directory, Path(scratch), options.workers))
            print(text)
            if options.write:
                write_block(options.write, f"{name} disagreement", text)


if __name__ == "__main__":
    main()
