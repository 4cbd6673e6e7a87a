"""Tables of a frozen study, from its rows and its lock, whatever became of its worlds and methods.

    python -m lab.study.frozen         # writes tables and pictures of all of lab/studies anew

A README names the rows of a table between two marks, and a world where it shows only one:

    <!-- rows: begin ../sql-world countdown-1 -->
    <!-- rows: end -->
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from dph._base.files import read_json, write_text
from dph.results.charts.text_table import TextTable, markdown
from lab.study.fronts import fronts_svg
from lab.study.plan import Plan
from lab.study.report import Report
from lab.study.results import LabelledRow, Results, compared
from lab.study.rows import Places, read_rows
from lab.study.rule_lock import RuleLock, locked_choices
from lab.study.settings import BASE, MethodSettings, RuleSettings, Study, StudyFile, StudySettings
from lab.study.tables import comparisons_table, differences_table, shown_scores_table

FOLDER = Path(__file__).parents[1] / "studies"
PICTURE = "fronts.svg"
_BLOCK = re.compile(r"(<!-- rows: begin (\S+)(?: (\S+))? -->\n).*?(<!-- rows: end -->)", re.DOTALL)


def frozen_report(folder: Path) -> Report:
    """The material of a frozen study's tables: its STUDY.toml, its lock and its rows.

    Its methods and worlds are names here: they need not exist any more.
    """
    table = tomllib.loads((folder / "STUDY.toml").read_text(encoding="utf-8"))
    places = Places(folder / "results")
    lock = read_json(places.lock)
    sha256, rule = lock["rule_sha256"], RuleSettings.model_validate(lock["rule"])
    methods = [{"label": method["name"], **method} for method in table["methods"]]
    file = StudyFile.model_construct(
        study=StudySettings.model_validate(table["study"]),
        methods=tuple(MethodSettings.model_construct(**method) for method in methods),
        rule=rule,
    )
    study = Study(path=folder / "STUDY.toml", file=file, rule=rule, rule_sha256=sha256)
    choices = locked_choices(places)
    worlds = [world.get("name", world["task"]) for world in table["worlds"]]
    return Report(
        study=study,
        plan=Plan(runs=(), undecided=(), choices=choices),
        results=Results(_labelled(places, study, worlds), rule.fronts),
        lock=RuleLock(sha256=sha256, replaces=tuple(lock["replaces"])),
    )


def _labelled(places: Places, study: Study, worlds: Sequence[str]) -> list[LabelledRow]:
    """The rows under each label that asked for them, in the order of the study's STUDY.toml."""
    rows = read_rows(places)
    columns = pq.read_table(places.parquet, columns=["split", "label", "run"]).to_pydict()
    asked = dict.fromkeys(zip(*columns.values(), strict=True))
    found = [LabelledRow(split, label, rows[run]) for split, label, run in asked if label]
    labels = (BASE, *study.labels)

    def place(each: LabelledRow) -> tuple[int, int, int]:
        name = each.row.world
        world = name if name in worlds else name.rpartition("-")[0]
        return worlds.index(world), labels.index(each.label), each.row.seed

    return sorted(found, key=place)


def frozen_tables(report: Report, world: str | None = None) -> Iterator[TextTable]:
    """Scores, differences and the rule's tests, of one world or of all."""
    for name in report.results.worlds:
        if world not in (None, name):
            continue
        yield shown_scores_table(report, name)
        for label in dict.fromkeys((report.reference, *report.study.file.study.beside)):
            yield differences_table(report, name, label, report.shown(name))
    tested = compared(report.results, report.study.rule)
    yield comparisons_table(report, tested, world)


def with_tables(page: str, folder: Path) -> str:
    """A README of a folder with its tables from the rows that its marks name."""

    def block(match: re.Match[str]) -> str:
        begin, place, world, end = match.groups()
        tables = frozen_tables(frozen_report((folder / place).resolve()), world)
        return begin + "\n".join(map(filled, tables)) + end

    return _BLOCK.sub(block, page)


def filled(table: TextTable) -> str:
    """A table in Markdown without the columns in which no row has anything."""
    lines = markdown(table).splitlines(keepends=True)
    rows = [line.strip("| \n").split(" | ") for line in lines if line.startswith("|")]
    kept = [i for i, _ in enumerate(rows[0]) if {row[i] for row in rows[2:]} != {"-"}]
    cells = iter("| " + " | ".join(row[i] for i in kept) + " |\n" for row in rows)
    return "".join(next(cells) if line.startswith("|") else line for line in lines)


def pages() -> dict[Path, str]:
    """Every README of a frozen study and every picture of fronts, as their rows have them."""
    found: dict[Path, str] = {}
    for path in sorted(FOLDER.glob("*/README.md")):
        found[path] = with_tables(path.read_text(encoding="utf-8"), path.parent)
        if PICTURE in found[path]:
            found[path.with_name(PICTURE)] = fronts_svg(frozen_report(path.parent))
    return found


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        write_text(path, text)


if __name__ == "__main__":
    main()
