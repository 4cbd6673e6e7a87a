"""What the quickstart says of other seeds at its end: src/dph/lab/quickstart/over_seeds.json.

    python benchmarks/over_seeds.py [STUDY.toml RESULTS]

The first edition's numbers are those of docs/first-edition.md; with a study also its worlds' are
written, from RESULTS/report.json, which `dph study` leaves. Without one they stay as they are.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_json
from dph.lab.quickstart.closing_words import FILE, SCHEMA
from dph.lab.study.settings import load_study

PAGE = "docs/first-edition.md"
ROOT = Path(__file__).parents[1]
COLUMNS = {
    "greedy": ("in_domain", "greedy"),
    "pass@16": ("in_domain", "pass@16"),
    "styles": ("in_domain", "styles"),
    "greedy across": ("cross_domain", "greedy"),
    "pass@16 across": ("cross_domain", "pass@16"),
}
_SETS, _METRICS = ("in_domain", "cross_domain"), ("greedy", "pass@16", "styles")
_CELL = re.compile(r"(-?[\d.]+) ± ([\d.]+)")


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study", type=Path, nargs="?", help="a STUDY.toml")
    parser.add_argument("results", type=Path, nargs="?", help="its directory of results")
    arguments = parser.parse_args()
    worlds = read_json(FILE)["worlds"] if FILE.is_file() else {}
    worlds["sql-1"] = first_edition((ROOT / PAGE).read_text(encoding="utf-8"))
    if arguments.study and arguments.results:
        worlds |= of_study(arguments.study, arguments.results)
    write_json(FILE, {"schema": SCHEMA, "worlds": dict(sorted(worlds.items()))})


def first_edition(page: str) -> dict[str, Any]:
    """The table between a page's marks, by method, set and metric."""
    block = page.split("<!-- table: begin -->")[1].split("<!-- table: end -->")[0]
    seeds = re.search(r"Seeds ([\d, ]+):", block)
    rows = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| ")]
    header = [cell.strip() for cell in rows[0]]
    header = header if header[0] == "" else ["", *header]
    methods: dict[str, Any] = {}
    for row in rows[2:]:
        of_method = methods.setdefault(row[0].strip("`"), {})
        for title, cell in zip(header[1:], row[1:], strict=True):
            found = _CELL.search(cell)
            if title in COLUMNS and found:
                of, metric = COLUMNS[title]
                of_method.setdefault(of, {})[metric] = [float(found[1]), float(found[2])]
    count = len(seeds[1].split(",")) if seeds else 0
    return {"page": PAGE, "seeds": count, "methods": methods}


def of_study(study: Path, results: Path) -> dict[str, Any]:
    """The same of every world of a study; the label that a method has first speaks for it."""
    names = {m.label: m.name for m in load_study(study).file.methods}
    first = {name: label for label, name in reversed(names.items())} | {"base": "base"}
    labels = {label: name for name, label in first.items()}
    worlds: dict[str, Any] = {}
    for score in json.loads((results / "report.json").read_text(encoding="utf-8"))["scores"]:
        known = score["label"] in labels and score["half_ci95"] is not None
        if not known or score["set"] not in _SETS or score["metric"] not in _METRICS:
            continue
        world = worlds.setdefault(
            score["world"], {"page": "docs/study.md", "seeds": 0, "methods": {}}
        )
        world["seeds"] = max(world["seeds"], score["seeds"])
        scale = 1 if score["metric"] == "styles" else 100
        of_set = world["methods"].setdefault(labels[score["label"]], {})
        of_set.setdefault(score["set"], {})[score["metric"]] = [
            round(scale * score["mean"], 1),
            round(scale * score["half_ci95"], 1),
        ]
    return worlds


if __name__ == "__main__":
    main()
