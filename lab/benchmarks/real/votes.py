r"""How often the real world's vote is right, on the prompts that consolidation learns from.

    python -m lab.benchmarks.real.votes OUT ... [--write docs/real-world.md]

OUT is a directory of lab/benchmarks/real/STUDY.toml with its ``work/``: stores of its seeds hold the
answers of the base model (those of trained models go with their runs). The prompts are files
without answers, but sums and differences, so the answers can be worked out here. A row is one
store's prompts of one part: share of answers that are right, prompts with a consensus (two answers
or more of one number, the largest class), and how often it is right, on report seeds. Rows go into
lab/benchmarks/real/results/votes.jsonl; those that are there stay. A second table is of the tests, from
the study's rows: how often the majority is right there, minus how often the greedy answer is.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from dph.runs.evaluate.consensus import Labelled
from dph.runs.presample.stores.groups import StoredGroup
from dph.runs.presample.stores.store import stored_groups, stored_values

from dph._base.files import write_json_lines
from dph._base.provenance import code_commit, versions
from dph.results.charts.text_table import UNKNOWN
from dph.results.over_seeds import mean_over_seeds
from dph.runs.presample.manifest import read_manifest
from dph.tasks.verifiers.exact import last_number
from lab.benchmarks.marked_blocks import write_block
from lab.study.planner import Planner
from lab.study.results import Results
from lab.study.rows import Places, read_rows
from lab.study.rule_lock import locked_choices
from lab.study.settings import load_study

STUDY = Path(__file__).with_name("STUDY.toml")
ROWS = STUDY.parent / "results" / "votes.jsonl"
SCHEMA = 1
KEY = ("seed", "answers_of", "part", "model_sha256")
_QUESTION = re.compile(r"(\d+) ([+-]) (\d+)")


def main() -> None:
    """Add what the stores say, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path, nargs="*", metavar="OUT")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    rows = read_votes(arguments.rows)
    reported = load_study(STUDY).file.study.seeds_report
    for out in arguments.results:
        for manifest in sorted(out.glob("work/*/seed_*/stores/*/manifest.json")):
            for row in votes_of(manifest.parent):
                if row["seed"] in reported:
                    rows.setdefault(tuple(row[name] for name in KEY), row)
    write_json_lines(arguments.rows, [rows[key] for key in sorted(rows)])
    table = f"{votes_table(list(rows.values()))}\n{gains_table(STUDY, ROWS.parent)}"
    print(table)
    if arguments.write:
        write_block(arguments.write, "votes", table)


def read_votes(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows that are there, by what they are of."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    rows = [json.loads(line) for line in lines]
    return {tuple(row[name] for name in KEY): row for row in rows}


def votes_of(store: Path) -> Iterator[dict[str, Any]]:
    """One row for each part of the prompts; ``store`` is ``seed_<n>/stores/<name>``."""
    manifest, values = read_manifest(store, "store"), stored_values(store)
    groups = stored_groups(store)
    seed = int(store.parents[1].name.removeprefix("seed_"))
    for part in dict.fromkeys(str(group.problem.answer["part"]) for group in groups):
        own = [
            _told(group, [value.answer_class for value in values[group.problem.problem_id]])
            for group in groups
            if group.problem.answer["part"] == part
        ]
        votes = [right for one in own if (right := one.consensus_is_right("answers")) is not None]
        yield {
            "schema": SCHEMA,
            "seed": seed,
            "answers_of": "base",
            "part": part,
            "prompts": len(own),
            "answers": manifest.source.answers,
            "right": fmean(fmean(one.right) for one in own),
            "consensus": len(votes) / len(own),
            "consensus_right": fmean(votes) if votes else None,
            "model_sha256": manifest.source.model_fingerprint,
            "commit": code_commit(),
            "versions": versions(torch.backends.cpu.get_cpu_capability()),
        }


def _told(group: StoredGroup, classes: Sequence[int | None]) -> Labelled:
    gold = result(str(group.problem.prompt))
    right = [text is not None and last_number(text) == gold for text in group.answered]
    return Labelled(classes=tuple(classes), texts=group.texts, greedy=False, right=right)


def result(question: str) -> int:
    """What a sum or a difference comes to.

    Raises:
        ValueError: the question is neither.

    >>> result("19 + 63"), result("7 - 12")
    (82, -5)
    """
    found = _QUESTION.fullmatch(question)
    if found is None:
        raise ValueError(f"{question!r} is neither a sum nor a difference of two numbers")
    first, sign, second = found.groups()
    return int(first) + int(f"{sign}{second}")


def votes_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds by model and part of the prompts, as markdown."""
    lines = [
        "| answers of | prompts | right | with a consensus | consensus right | seeds |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for answers_of, part in dict.fromkeys((row["answers_of"], row["part"]) for row in rows):
        own = [r for r in rows if (r["answers_of"], r["part"]) == (answers_of, part)]
        shares = [_share(own, name) for name in ("right", "consensus", "consensus_right")]
        lines.append(f"| {answers_of} | {part} | {' | '.join(shares)} | {len(own)} |")
    lines += ["", "In per cent, means over seeds with 95% t-intervals."]
    return "\n".join(lines) + "\n"


def _share(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    known = [row[name] for row in rows if row[name] is not None]
    return str(mean_over_seeds(known).times(100)) if known else UNKNOWN


def gains_table(study: Path, results: Path) -> str:
    """The majority of 16 answers minus the greedy one on the tests, by method, as markdown."""
    places = Places(results)
    rows = read_rows(places)
    found = Results(Planner(load_study(study), locked_choices(places)).plan(rows), rows)
    lines = ["| majority of 16 minus greedy | in domain | cross domain | seeds |"]
    lines.append("|---|---:|---:|---:|")
    for world in found.worlds:
        for label in found.labels(world):
            cells = [_gain(found, world, label, name) for name in found.sets(world)]
            lines.append(f"| {label} | {' | '.join(cells)} | {found.seeds(world, label)} |")
    lines += ["", "In points on the same test questions, with 95% t-intervals over report seeds."]
    return "\n".join(lines) + "\n"


def _gain(found: Results, world: str, label: str, of_set: str) -> str:
    vote, greedy = (found.values(world, label, metric, [of_set]) for metric in ("maj@16", "greedy"))
    differences = [vote[seed] - greedy[seed] for seed in vote]
    return mean_over_seeds(differences).times(100).signed()


if __name__ == "__main__":
    main()
