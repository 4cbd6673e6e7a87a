"""What our study found, into the pages that say so: README.md and docs/.

    dph study benchmarks/study/STUDY.toml --no-run
    python benchmarks/study_pages.py benchmarks/study/STUDY.toml benchmarks/study/results

With --page, the tables of any study go between the marks "study" of one page, or others; the
differences in them are to the study's reference, or to the arms that --minus names:

    python benchmarks/study_pages.py benchmarks/real/STUDY.toml RESULTS --page real-world.md
    python benchmarks/study_pages.py benchmarks/attribution/STUDY.toml RESULTS --page results.md \
        --block attribution --minus DPH-broad --minus GRPO

Every table is the study's own (RESULTS/tables/*.md). A page is changed between its marks only, and
docs/methods.md in the last column of its table, from RESULTS/report.json.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from marked_blocks import write_block

from dph._base.files import write_text
from dph.lab.study.settings import load_study

ROOT = Path(__file__).parents[1]
FRONT_ROWS = ("base", "GRPO", "GRPO, 5e-4", "DPH-F", "DPH-broad")
FRONT_COLUMNS = tuple(
    f"{of} domain: {metric}" for of in ("in", "cross") for metric in ("greedy", "pass@16", "styles")
)
DIFFERENCES = {"grpo": "GRPO", "grpo-5e-4": "GRPO__5e-4", "base": "base"}
"""Blocks of docs/results.md, and what their differences are to."""
WORLD_PAGES = {"sql-2": "quickstart-world.md", "countdown-1": "countdown-world.md"}


def main() -> None:
    """Write all pages from a study's directory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study", type=Path, help="the STUDY.toml")
    parser.add_argument("results", type=Path, help="its directory of results")
    parser.add_argument("--root", type=Path, default=ROOT, help="where README.md and docs/ are")
    parser.add_argument("--page", help="page of docs/ that gets this study's tables, and no other")
    parser.add_argument("--block", default="study", help="its marks [default: study]")
    parser.add_argument("--minus", action="append", help="the arm that differences are to")
    arguments = parser.parse_args()
    tables = arguments.results / "tables"
    docs = arguments.root / "docs"
    if arguments.page:
        reference = str(load_study(arguments.study).file.study.reference)
        found = own_tables(tables, arguments.minus or [reference])
        write_block(docs / arguments.page, arguments.block, found)
        return
    worlds = [world for world in WORLD_PAGES if (tables / f"scores-{world}.md").exists()]
    if not worlds:
        raise SystemExit(f"{tables} has no table of scores: run `dph study` first")
    write_block(arguments.root / "README.md", "table", front_table(tables / "short-sql-2.md"))
    write_block(docs / "results.md", "scores", _joined(tables, [f"short-{w}" for w in worlds]))
    for name, against in DIFFERENCES.items():
        found = [f"differences-{world}-{against}" for world in worlds]
        write_block(docs / "results.md", name, _joined(tables, found))
    write_block(docs / "results.md", "tests", _joined(tables, ["comparisons"]))
    write_block(docs / "study-tables.md", "study", _joined(tables, list(_names(worlds))))
    for world in worlds:
        write_block(docs / WORLD_PAGES[world], "power", _rows_about(tables / "power.md", world))
    report = json.loads((arguments.results / "report.json").read_text(encoding="utf-8"))
    methods = load_study(arguments.study).file.methods
    by_name = {method.name: method.label for method in reversed(methods)}
    if between := [method.label for method in methods if method.interpolate]:
        by_name["dph interpolate"] = between[0]
    page = (docs / "methods.md").read_text(encoding="utf-8")
    write_text(docs / "methods.md", with_measurements(page, report["scores"], by_name))


def front_table(path: Path) -> str:
    """The few rows and columns of the README: the first try, Pass@16 and ways of answering."""
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    columns = [rows[0].index(name) for name in ("method", *FRONT_COLUMNS, "seeds")]
    kept = [row for row in rows[:2] + rows[2:] if row[0] in ("method", "---", *FRONT_ROWS)]
    lines = ["| " + " | ".join(row[i] for i in columns) + " |" for row in kept]
    return "\n".join(lines) + "\n"


def own_tables(tables: Path, minus: Sequence[str]) -> str:
    """Scores, differences to the arms in ``minus``, and the rule's tests."""
    others = [re.sub(r"[^A-Za-z0-9.-]", "_", label) for label in minus]
    found = [
        *_by_name(tables, "scores-*"),
        *(path for name in others for path in _by_name(tables, f"differences-*-{name}")),
        tables / "comparisons.md",
    ]
    return "\n".join(_filled(path.read_text(encoding="utf-8")) for path in found)


def _by_name(tables: Path, pattern: str) -> list[Path]:
    return sorted(tables.glob(f"{pattern}.md"), key=lambda path: path.stem)


def _filled(text: str) -> str:
    """Tables without the columns in which no row has anything, such as styles where none exist."""
    lines = text.splitlines(keepends=True)
    rows = [line.strip("| \n").split(" | ") for line in lines if line.startswith("|")]
    kept = [i for i, _ in enumerate(rows[0]) if {row[i] for row in rows[2:]} != {"-"}]
    cells = iter("| " + " | ".join(row[i] for i in kept) + " |\n" for row in rows)
    return "".join(next(cells) if line.startswith("|") else line for line in lines)


def _names(worlds: list[str]) -> Iterator[str]:
    """The tables of docs/study.md, in order."""
    yield "power"
    yield "choices"
    for world in worlds:
        yield f"scores-{world}"
        for against in ("GRPO", "GRPO__5e-4", "GRPO__as_many_answers", "base", "GRPO__3x"):
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
