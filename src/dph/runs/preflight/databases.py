"""The SQLite files that problems name: that they are there, and are databases."""

from collections.abc import Sequence
from pathlib import Path

from dph.recipe import Recipe
from dph.runs.preflight.data import NamedProblems
from dph.runs.preflight.findings import Findings

_HEADER = b"SQLite format 3\x00"


def check_databases(recipe: Recipe, named: Sequence[NamedProblems], findings: Findings) -> None:
    """Look at every database of the problems that the sql verifier grades."""
    start = recipe.data.databases or Path()
    if not start.is_dir():
        return  # told with the setting itself
    for part in named:
        if part.verifier != "sql":
            continue
        names = (problem.answer.get("database") for problem in part.problems)
        files = dict.fromkeys(start / name for name in names if isinstance(name, str) and name)
        bad = [file for file in files if not _is_database(file)]
        if bad:
            findings.errors.append(
                f"{part.key}: {len(bad)} of {len(files)} databases are not there or are no SQLite "
                f"files, the first is {bad[0]}"
            )


def _is_database(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_HEADER)) == _HEADER
    except OSError:
        return False
