"""The tables of docs/ that repeat rows of the package.

    python lab/benchmarks/written_tables.py

docs/methods.md has a line for each method (dph.recipe.methods); its last column, the measurements,
is written by study_pages.py and stays. docs/guides/grading.md has a line for each verifier
(dph.tasks.verifiers.table). A page is changed between its marks only.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marked_blocks import write_block

from dph.errors import SettingsError
from dph.recipe import METHODS, resolve_recipe
from dph.recipe.engines import ENGINES
from dph.recipe.methods import METHOD_ROWS
from dph.recipe.terms import Method
from dph.tasks.verifiers.table import VERIFIERS, VerifierRow

ROOT = Path(__file__).parents[2]
NOT_MEASURED = "not measured"
COLUMNS = {
    "methods": (
        *("method", "formula", "strength", "source", "cost", "what is stored"),
        *("engines", "when to use it", "what we measured"),
    ),
    "verifiers": ("`data.verifier`", "what it grades", "settings", "files of answers", "agreement"),
}


def main() -> None:
    """Write all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="where docs/ is")
    docs = parser.parse_args().root / "docs"
    page = (docs / "methods.md").read_text(encoding="utf-8")
    _write(docs / "methods.md", "methods", method_lines(page))
    _write(docs / "guides" / "grading.md", "verifiers", verifier_lines())


def _write(page: Path, name: str, lines: Iterator[list[str]]) -> None:
    columns = COLUMNS[name]
    rule = f"|{'---|' * len(columns)}"
    table = [f"| {' | '.join(cells)} |" for cells in (columns, *lines)]
    write_block(page, name, "\n".join([table[0], rule, *table[1:]]) + "\n")


# Methods.


def method_lines(page: str) -> Iterator[list[str]]:
    """A line for each method, and those lines of the page that are about something else."""
    there = {cells[0].strip("`"): cells for cells in _lines_of(page, "methods")}
    for name, row in METHOD_ROWS.items():
        measured = there[name][-1] if name in there else NOT_MEASURED
        yield [f"`{name}`", *_method_cells(name, row), measured]
    yield from (cells for name, cells in there.items() if name not in METHOD_ROWS)


def _method_cells(name: str, row: Method) -> Iterator[str]:
    yield row.formula.replace("|", r"\|")
    yield f"`{row.strength}`" if row.strength else "-"
    yield row.source or "-"
    yield row.cost or "-"
    yield row.stored or "-"
    yield engines_of(name)
    yield row.use


def engines_of(method: str) -> str:
    """The engines that train a method: those that do not refuse a recipe with it."""
    able = [engine for engine in ENGINES if _trains(engine, method)]
    return "all" if len(able) == len(ENGINES) else ", ".join(able)


def _trains(engine: str, method: str) -> bool:
    table: dict[str, Any] = {
        "model": {"path": "model"},
        "data": {"train": "problems.jsonl"},
        "train": {"engine": engine},
        "method": method,
    }
    if "self_consistency" in METHODS[method]:
        table["self_consistency"] = {"file": "prompts.jsonl"}
    resolve_recipe({**table, "train": {"engine": "own"}})
    try:
        resolve_recipe(table)
    except SettingsError:
        return False
    return True


def _lines_of(page: str, name: str) -> Iterator[list[str]]:
    """The cells of the lines that the block has now."""
    block = page.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]
    for line in block.strip().splitlines()[2:]:
        if line.startswith("|"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


# Verifiers.


def verifier_lines() -> Iterator[list[str]]:
    """A line for each verifier."""
    for name, row in VERIFIERS.items():
        settings = [f"`data.{key}` [{_plain(one.default)}]" for key, one in row.settings.items()]
        graded = "yes" if row.compares else "no"
        yield [f"`{name}`", row.summary, ", ".join(settings) or "-", _verb(name, row), graded]


def _plain(default: object) -> str:
    return "its own" if default is None else str(default).lower()


def _verb(name: str, row: VerifierRow) -> str:
    found = re.search(r"`.*?`", row.elsewhere)
    return found[0] if found else f"`dph grade --verifier {name}`"


if __name__ == "__main__":
    main()
