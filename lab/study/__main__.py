"""Compare methods over strengths, seeds and worlds, by a rule that was said before.

python -m lab.study STUDY.toml
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.main import get_command

from dph.cli.display.output import json_text, open_progress
from dph.cli.options import INTERRUPTED, JsonOption, exit_code, say_interrupted
from dph.cli.request import require_writable
from dph.results.charts.text_table import FORMATS, markdown
from lab.study.costs import Outlook, outlook
from lab.study.outputs import make_report, report_document, write_outputs
from lab.study.plan import DEVELOPMENT, REPORT, Plan, wanted_runs
from lab.study.planner import Planner
from lab.study.report import Report
from lab.study.rows import RunRow, read_rows
from lab.study.rule_lock import current_lock, default_places, locked_choices, start_with_new_rule
from lab.study.runner import Runner, core_jobs
from lab.study.settings import load_study, with_settings
from lab.study.tables import all_tables, choices_table

_THE_STUDYS = "the study's"


StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="Study, a TOML file.")]
PlaceOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Output directory.",
        show_default="the study's name, next to its file",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, metavar="N", help="Number of runs at a time.", show_default=_THE_STUDYS
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="WORLD|METHOD|SEED", help="Run only these; may be repeated."),
]
KeepOption = Annotated[
    Literal["scores", "checkpoints"] | None,
    typer.Option("--keep", help="Files to keep of a finished run.", show_default=_THE_STUDYS),
]
NewRuleOption = Annotated[
    bool, typer.Option("--new-rule", help="Start a separate directory for a changed rule.")
]
StatusOption = Annotated[
    bool, typer.Option("--status", help="Show the progress; run and write nothing.")
]
NoRunOption = Annotated[
    bool, typer.Option("--no-run", help="Run nothing; write the tables of the existing rows.")
]
DeviceOption = Annotated[
    Literal["cpu", "cuda"], typer.Option("--device", help="Device of the runs on worlds.")
]
MinutesOption = Annotated[
    float | None,
    typer.Option(
        "--minutes", min=0.01, metavar="N", help="Length of a share; the next one goes on from it."
    ),
]
TableOption = Annotated[
    Literal["md", "csv", "latex"] | None,
    typer.Option("--table", help="Format of the printed tables.", show_default="scores as md"),
]


def study(
    file: StudyArgument,
    out: PlaceOption = None,
    jobs: JobsOption = None,
    only: OnlyOption = None,
    keep: KeepOption = None,
    new_rule: NewRuleOption = False,
    status: StatusOption = False,
    no_run: NoRunOption = False,
    device: DeviceOption = "cpu",
    minutes: MinutesOption = None,
    table: TableOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare methods over strengths, seeds and worlds, or continue."""
    loaded = with_settings(load_study(file), {"keep": keep, "jobs": jobs})
    places = default_places(loaded, out)
    planner = Planner(loaded, locked_choices(places))
    wanted = wanted_runs(only or (), loaded.file, planner.sites)
    require_writable(places.out)
    if new_rule and not status:
        places = start_with_new_rule(loaded, places)
    rows = read_rows(places)
    lock, plan = current_lock(loaded, places, rows), wanted.of(planner.plan(rows))
    before = outlook(plan, places, rows, loaded.file.study.jobs or os.cpu_count() or 1)
    if not status:
        progress = open_progress()
        progress.say(f"{loaded.file.study.name}: {before}; {lock.note}")
        if plan.missing(rows) and not no_run:
            running = core_jobs(loaded.file.study.jobs or os.cpu_count() or 1, places)
            runner = Runner(planner, places, running, wanted=wanted, device=device, minutes=minutes)
            rows = runner.run(progress)
    report = make_report(loaded, planner.plan(rows), rows, lock)
    if not status:
        write_outputs(report, places, rows)
    if as_json:
        typer.echo(json_text(report_document(report, rows)))
        return
    if status:
        typer.echo(said_status(report, plan, before, rows))
    if table is not None or not status:
        typer.echo(said_tables(report, table))
    if not status:
        typer.echo(f"scores: {places.parquet}\ntables: {places.tables}")


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


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command()(study)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = get_command(app).main(words, prog_name="lab.study", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every error becomes a code
        return exit_code(error)
    return say_interrupted() if code == INTERRUPTED else 0


if __name__ == "__main__":
    sys.exit(main())
