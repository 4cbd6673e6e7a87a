"""What one has to know of the Countdown world before methods are compared on it.

    python lab/benchmarks/countdown_world.py [--runs DIR ...] [--write docs/countdown-world.md]

First a blind walk, which takes any legal step: its mean, Pass@16 and Pass@64 on the sets of five
seeds, computed by enumerating every derivation, and how many right derivations the puzzles have.
With --runs, the scores in the directories that ``dph quickstart --task countdown`` left behind
follow, one directory for each seed; a directory may hold ``cool/base/evaluation.json``, the base
model at another temperature. With --write the part of that file between the markers of each table
is replaced.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from marked_blocks import write_block

from dph._base.files import read_json
from dph.results.vocabulary import method_label
from lab.worlds.countdown.world import Puzzle, build_world, solutions

SEEDS = (0, 1, 2, 3, 4)
SETS = ("in_domain", "cross_domain")
KS = (16, 64)
FEW = 10
"""Puzzles with so few right derivations are counted apart."""


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    tables = {"blind": blind_table()}
    if arguments.runs:
        tables["measured"] = measured_table([summary_of(path) for path in arguments.runs])
    for name, table in tables.items():
        print(table)
        if arguments.write:
            write_block(arguments.write, name, table)


def blind_table() -> str:
    """Mean and Pass@k of a blind walk, and the numbers of right derivations, as markdown."""
    lines = [
        "| blind walk | mean@1 | pass@16 | pass@64 | right derivations: median (10% to 90%) | "
        f"at most {FEW} |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    puzzles = puzzles_of_sets()
    for name in SETS:
        means = [blind_scores(of_seed) for of_seed in puzzles[name]]
        scores = [_over_seeds([mean[k] for mean in means]) for k in (1, *KS)]
        counts = sorted(
            solutions(puzzle).derivations for of_seed in puzzles[name] for puzzle in of_seed
        )
        tenth = len(counts) // 10
        ways = f"{median(counts):.0f} ({counts[tenth]} to {counts[-tenth - 1]})"
        few = fmean(count <= FEW for count in counts)
        row = [name.replace("_", " "), *scores, ways, f"{100 * few:.0f}%"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def puzzles_of_sets() -> dict[str, list[list[Puzzle]]]:
    """The puzzles of both evaluation sets, seed by seed."""
    found: dict[str, list[list[Puzzle]]] = {name: [] for name in SETS}
    with TemporaryDirectory() as directory:
        for seed in SEEDS:
            world = build_world(Path(directory) / str(seed), seed=seed)
            for name in SETS:
                found[name].append(world.puzzles(name))
    return found


def blind_scores(puzzles: Iterable[Puzzle]) -> dict[int, float]:
    """Pass@k of a blind walk by k, exactly: 1 - (1 - p)^k, averaged over puzzles."""
    chances = [solutions(puzzle).probability for puzzle in puzzles]
    return {k: fmean(1 - (1 - p) ** k for p in chances) for k in (1, *KS)}


def summary_of(directory: Path) -> dict[str, Mapping[str, Any]]:
    """The sets of every model that a quickstart left behind, by name."""
    summary = read_json(directory / "summary.json")
    models = {"base": summary["base"]["sets"]}
    cool = directory / "cool" / "base" / "evaluation.json"
    if cool.exists():
        models["base, cooler"] = read_json(cool)["sets"]
    return models | {name: method["sets"] for name, method in summary["methods"].items()}


def measured_table(seeds: Sequence[Mapping[str, Mapping[str, Any]]]) -> str:
    """Means over the seeds that have a model, with the values of each where there are several."""
    names = list(dict.fromkeys(name for seed in seeds for name in seed))
    header = ["greedy", "mean@1", "pass@16", "orders"]
    lines = [
        f"| {' | '.join(['', *header, *(f'across: {title}' for title in header)])} |",
        f"|---|{'---:|' * (2 * len(header))}",
    ]
    for name in names:
        rows = [_scores(seed[name]) for seed in seeds if name in seed]
        cells = [_over_seeds(column, scale=1.0) for column in zip(*rows, strict=True)]
        label = name if name.startswith("base,") else method_label(name)
        lines.append(f"| {' | '.join([label, *cells])} |")
    return "\n".join(lines) + "\n"


def _scores(sets: Mapping[str, Any]) -> list[float]:
    values: list[float] = []
    for name in SETS:
        of_set = sets[name]
        fractions = (of_set["greedy"], of_set["mean"], of_set["pass_at_k"]["16"])
        values += [*(100 * fraction for fraction in fractions), of_set["effective_styles"]]
    return values


def _over_seeds(values: Sequence[float], *, scale: float = 100.0) -> str:
    shown = [f"{scale * value:.1f}" for value in values]
    if len(shown) == 1:
        return shown[0]
    if len(shown) < 4:
        return " / ".join(shown)
    return f"{scale * fmean(values):.1f} ({min(shown, key=float)} to {max(shown, key=float)})"


if __name__ == "__main__":
    main()
