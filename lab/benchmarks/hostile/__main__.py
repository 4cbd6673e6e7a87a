"""The curve on which a vote stops helping, from the rows of a study on hostile worlds.

dph study lab/benchmarks/hostile/STUDY.toml --out lab/benchmarks/hostile/results
python -m lab.benchmarks.hostile lab/benchmarks/hostile/STUDY.toml lab/benchmarks/hostile/results \
        [--picture docs/hostile.png] [--write docs/hostile-world.md]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from dph.results.charts.figures import save_figure
from dph.results.charts.text_table import markdown
from lab.benchmarks.hostile.curve import (
    curve_figure,
    curve_note,
    curve_tables,
    points_of,
    sentences,
)
from lab.benchmarks.marked_blocks import write_block
from lab.study.planner import Planner
from lab.study.results import Results
from lab.study.rows import Places, read_rows
from lab.study.rule_lock import current_lock, locked_choices
from lab.study.settings import load_study


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, or put it on a page; draw the picture where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study", type=Path, help="the STUDY.toml")
    parser.add_argument("results", type=Path, help="its directory of results")
    parser.add_argument("--picture", type=Path, help="where the picture is written")
    parser.add_argument("--write", type=Path, help="a page with the marks of `hostile`")
    arguments = parser.parse_args(words)
    study, places = load_study(arguments.study), Places(arguments.results.absolute())
    rows = read_rows(places)
    lock = current_lock(study, places, rows)
    results = Results(Planner(study, locked_choices(places)).plan(rows), rows)
    points = points_of(study, results)
    if not points:
        raise SystemExit(f"{arguments.results} has no seed of both arms of a pair of the rule")
    tables = [markdown(table).strip() for table in curve_tables(points)]
    note = curve_note(f"{lock.note[0].upper()}{lock.note[1:]}.")
    told = "\n".join(f"- {line}" for line in sentences(points))
    text = "\n\n".join((*tables, note, told)) + "\n"
    if arguments.write:
        write_block(arguments.write, "hostile", text)
    else:
        print(text, end="")
    if arguments.picture:
        save_figure(arguments.picture, lambda: curve_figure(points))


if __name__ == "__main__":
    main()
