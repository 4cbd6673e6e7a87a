"""How much of a step's prompts is distinct, on the questions of Spider with the paper's prompt.

    python lab/benchmarks/spider_prompts.py --spider DIR [--questions train.parquet]

``DIR`` holds the questions and ``database/``. A row for every number of prompts in a step: tokens
of the tree of their common beginnings over tokens of all of them, as mean and range over random
steps. Tokens are words, signs and stretches of space here: no tokenizer has to be downloaded.
"""

import argparse
import random
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from dph.model.forward.prefix_tree import prefix_forest, tokens_of
from dph.tasks.sql.prompt import SQLPrompts

PROMPTS = (16, 48, 128, 384)
"""384 are the paper's: 128 problems and 256 stored answers."""
STEPS = 5
_TOKEN = re.compile(r"\w+|[^\w\s]|\s+")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spider", type=Path, required=True)
    parser.add_argument("--questions", default="train.parquet")
    options = parser.parse_args()
    table = pq.read_table(options.spider / options.questions, columns=["db_id", "question"])
    drawn = random.Random(0).sample(table.to_pylist(), min(3 * max(PROMPTS), table.num_rows))
    prompts = _tokenized(drawn, options.spider / "database")
    print("| prompts | mean tokens | distinct | range |\n| --- | --- | --- | --- |")
    for count in PROMPTS:
        steps = [random.Random(step).sample(prompts, count) for step in range(STEPS)]
        shares = sorted(_distinct(step) for step in steps)
        mean = statistics.fmean(len(prompt) for step in steps for prompt in step)
        share, low, high = (
            round(100 * x) for x in (statistics.fmean(shares), shares[0], shares[-1])
        )
        print(f"| {count} | {mean:.0f} | {share}% | {low} to {high} |")


def _tokenized(questions: Sequence[dict[str, str]], databases: Path) -> list[list[int]]:
    prompts = SQLPrompts(databases=databases, schemas={})
    numbers: dict[str, int] = {}
    return [
        [
            numbers.setdefault(token, len(numbers))
            for token in _TOKEN.findall(prompts.prompt(row["db_id"], row["question"]))
        ]
        for row in sorted(questions, key=lambda row: row["db_id"])
    ]


def _distinct(prompts: Sequence[Sequence[int]]) -> float:
    return tokens_of(prefix_forest(prompts)) / sum(map(len, prompts))


if __name__ == "__main__":
    main()
