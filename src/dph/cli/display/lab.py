"""Output of ``dph study``: progress and tables."""

from collections.abc import Mapping

from dph.lab.study.costs import Outlook
from dph.lab.study.plan import DEVELOPMENT, REPORT, Plan
from dph.lab.study.report import Report
from dph.lab.study.rows import RunRow
from dph.lab.study.tables import all_tables, choices_table
from dph.results.charts.text_table import FORMATS, markdown


def said_status(report: Report, asked: Plan, outlook: Outlook, rows: Mapping[str, RunRow]) -> str:
    """Finished runs of what was asked for, the time that is left, the rule, and the choices."""
    lines = [f"{report.study.file.study.name}: {outlook}"]
    runs = asked.runs
    for world in dict.fromkeys(run.variant.site.name for run in runs):
        parts = []
        for split in (DEVELOPMENT, REPORT):
            here = {run.id for run in runs if run.split == split and run.variant.site.name == world}
            if here:
                parts.append(f"{split} {len(here & set(rows))} of {len(here)}")
        lines.append(f"{world}: {', '.join(parts)}")
    if outlook.undecided:
        lines.append(f"at most {outlook.undecided} more when strengths are chosen")
    lines.append(report.lock.note)
    return "\n".join(lines) + "\n\n" + markdown(choices_table(report))


def said_tables(report: Report, wanted: str | None) -> str:
    """Every table in a format; without one, what most people look for, as markdown."""
    tables = list(all_tables(report))
    if wanted is None:
        shown = [t for t in tables if t.name == "comparisons" or t.name.startswith("scores-")]
        return "\n".join(map(markdown, shown))
    _, write = FORMATS[wanted]
    return "\n".join(write(table) for table in tables)
