"""How many test questions of a text-to-SQL world are near-duplicates of prompts that a method saw.

    python lab/benchmarks/near_duplicates.py --seeds 400,401,402,403,404,405,406,407,408,409 \
        [--write docs/quickstart-world.md]

A near-duplicate is equal but for constants (every number or quoted text is one word), or but for
constants and comparisons (above, below, at least and at most are one word too). Compared are the
test questions of each set with the unlabelled prompts and with the questions of RL; no model is
needed.
"""

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

from marked_blocks import write_block

from dph._base.files.rows import json_rows
from lab.worlds import world_kind
from lab.worlds.sql.questions import COMPARISONS
from lab.worlds.world import without_constants

SETS = {"in_domain": "in domain", "cross_domain": "across"}
SEEN = {"unlabelled": "an unlabelled prompt", "train": "a question of RL"}
_COMPARISON = re.compile("|".join(map(re.escape, COMPARISONS)))


def without_comparisons(prompt: str) -> str:
    """The same with every comparison as one word too.

    >>> without_comparisons("show fee of screening with turnout at most 24 ->")
    'show fee of screening with turnout C N ->'
    """
    return _COMPARISON.sub("C", without_constants(prompt))


FORMS: dict[str, Callable[[str], str]] = {
    "constants": without_constants,
    "constants and comparisons": without_comparisons,
}


def main() -> None:
    """Print the table, or put it between its marks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="400,401,402,403,404,405,406,407,408,409")
    parser.add_argument("--write", type=Path, help="a page with the marks of `duplicates`")
    arguments = parser.parse_args()
    table = "\n".join(lines([int(seed) for seed in arguments.seeds.split(",")])) + "\n"
    if arguments.write:
        write_block(arguments.write, "duplicates", table)
    else:
        print(table, end="")


def lines(seeds: Sequence[int]) -> Iterator[str]:
    """Means over worlds of the seeds, in per cent of a set's questions."""
    worlds = [prompts_of(seed) for seed in seeds]
    yield "| test questions | equal to | but for | share | lowest to highest |"
    yield "|---|---|---|---:|---:|"
    for of, title in SETS.items():
        for seen, what in SEEN.items():
            for form, reduced in FORMS.items():
                shares = [100 * share(world[of], world[seen], reduced) for world in worlds]
                span = f"{min(shares):.0f} to {max(shares):.0f}"
                yield f"| {title} | {what} | {form} | {fmean(shares):.0f}% | {span} |"


def share(questions: Sequence[str], seen: Sequence[str], reduced: Callable[[str], str]) -> float:
    """The share of questions whose reduced form is that of a prompt that was seen."""
    known = set(map(reduced, seen))
    return fmean(reduced(question) in known for question in questions)


def prompts_of(seed: int) -> dict[str, list[str]]:
    """The prompts of a world by file."""
    kind = world_kind("sql", 2)
    with tempfile.TemporaryDirectory() as folder:
        kind.build(Path(folder) / "world", seed=seed, sizes=None)
        return {
            name: [row["prompt"] for _, row in json_rows(Path(folder) / "world" / f"{name}.jsonl")]
            for name in (*SETS, *SEEN)
        }


if __name__ == "__main__":
    main()
