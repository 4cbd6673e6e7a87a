"""What our study found, into the pages that say so: README.md and docs/.

    dph study benchmarks/study/STUDY.toml --no-run
    python benchmarks/study_pages.py benchmarks/study/STUDY.toml benchmarks/study/results

Every table is the study's own (RESULTS/tables/*.md). A page is changed between its marks only, and
docs/methods.md in the last column of its table, from RESULTS/report.json.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from marked_blocks import write_block

from dph.files import write_text
from dph.study.study_file import load_study

ROOT = Path(__file__).parents[1]
WORLD_PAGES = {"sql-2": "quickstart-world.md", "countdown-1": "countdown-world.md"}


def main() -> None:
    """Write all pages from a study's directory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study", type=Path, help="the STUDY.toml")
    parser.add_argument("results", type=Path, help="its directory of results")
    parser.add_argument("--root", type=Path, default=ROOT, help="where README.md and docs/ are")
    arguments = parser.parse_args()
    tables = arguments.results / "tables"
    docs = arguments.root / "docs"
    worlds = [world for world in WORLD_PAGES if (tables / f"scores-{world}.md").exists()]
    if not worlds:
        raise SystemExit(f"{tables} has no table of scores: run `dph study` first")
    write_block(arguments.root / "README.md", "table", _joined(tables, ["short-sql-2"]))
    write_block(docs / "study.md", "study", _joined(tables, list(_names(worlds))))
    for world in worlds:
        write_block(docs / WORLD_PAGES[world], "power", _rows_about(tables / "power.md", world))
    report = json.loads((arguments.results / "report.json").read_text(encoding="utf-8"))
    methods = load_study(arguments.study).file.methods
    by_name = {method.name: method.label for method in reversed(methods)}
    if between := [method.label for method in methods if method.interpolate]:
        by_name["dph interpolate"] = between[0]
    page = (docs / "methods.md").read_text(encoding="utf-8")
    write_text(docs / "methods.md", with_measurements(page, report["scores"], by_name))


def _names(worlds: list[str]) -> Iterator[str]:
    """The tables of docs/study.md, in order."""
    yield "power"
    yield "choices"
    for world in worlds:
        yield f"scores-{world}"
        for against in ("GRPO", "GRPO__as_many_answers", "base", "GRPO__3x"):
            yield f"differences-{world}-{against}"
        yield f"retention-{world}"
        yield f"elsewhere-{world}"
    yield "comparisons"


def _joined(tables: Path, names: list[str]) -> str:
    paths = [tables / f"{name}.md" for name in names]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.exists())


def _rows_about(path: Path, world: str) -> str:
    """A table with the rows of one world alone."""
    others = [other for other in WORLD_PAGES if other != world]
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(tuple(f"| {o} |" for o in others)))


def with_measurements(page: str, scores: list[Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    """The page of methods with its last column from the scores: greedy / Pass@16 by world."""
    found = {(s["label"], s["world"], s["set"], s["metric"]): 100 * s["mean"] for s in scores}

    def cell(name: str) -> str:
        label = labels.get(name, name)
        parts = []
        for world in WORLD_PAGES:
            values = [
                found.get((label, world, of, metric))
                for of in ("in_domain", "cross_domain")
                for metric in ("greedy", "pass@16")
            ]
            if None not in values:
                parts.append("{}: {:.1f} / {:.1f}; {:.1f} / {:.1f}".format(world, *values))
        return ". ".join(parts) or "-"

    return re.sub(
        r"^(\| `([\w ]+)` \|.*\|)[^|\n]*\|$",
        lambda match: f"{match[1]} {cell(match[2])} |" if match[2] in labels else match[0],
        page,
        flags=re.MULTILINE,
    )


if __name__ == "__main__":
    main()
