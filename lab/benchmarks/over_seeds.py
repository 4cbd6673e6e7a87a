"""What the quickstart says of other seeds at its end: src/dph/lab/quickstart/over_seeds.json.

    python lab/benchmarks/over_seeds.py STUDY.toml RESULTS [--page docs/real-world.md]

The numbers of the study's worlds are those of RESULTS/report.json, which `dph study` leaves; other
worlds' stay as they are.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_json
from lab.quickstart.closing_words import FILE, SCHEMA
from lab.study.settings import load_study

_SETS, _METRICS = ("in_domain", "cross_domain"), ("greedy", "pass@16", "styles")


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study", type=Path, help="a STUDY.toml")
    parser.add_argument("results", type=Path, help="its directory of results")
    parser.add_argument("--page", default="docs/results.md", help="page with its tables")
    arguments = parser.parse_args()
    worlds = read_json(FILE)["worlds"] if FILE.is_file() else {}
    worlds |= of_study(arguments.study, arguments.results, arguments.page)
    write_json(FILE, {"schema": SCHEMA, "worlds": dict(sorted(worlds.items()))})


def of_study(study: Path, results: Path, page: str) -> dict[str, Any]:
    """Numbers by world, method, set and metric; the first label of a method speaks for it."""
    names = {m.label: m.name for m in load_study(study).file.methods}
    first = {name: label for label, name in reversed(names.items())} | {"base": "base"}
    labels = {label: name for name, label in first.items()}
    worlds: dict[str, Any] = {}
    for score in json.loads((results / "report.json").read_text(encoding="utf-8"))["scores"]:
        known = score["label"] in labels and score["half_ci95"] is not None
        if not known or score["set"] not in _SETS or score["metric"] not in _METRICS:
            continue
        world = worlds.setdefault(score["world"], {"page": page, "seeds": 0, "methods": {}})
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
