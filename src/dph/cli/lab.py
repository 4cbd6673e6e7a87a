"""``dph study``: methods x strengths x seeds x worlds, by a rule that was said before."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dph.cli.options import JsonOption

if TYPE_CHECKING:
    from dph._processes.jobs.processes import Jobs
    from lab.study.rows import Places
    from lab.study.settings import StudySettings


# ``dph quickstart``: see the collapse, and what prevents it, in minutes on a CPU.


def quickstart(
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Methods to compare, separated by commas; rkl@0.3 sets the strength.",
            show_default="grpo,dph_f,rkl, or those of the task's world",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all random draws.")] = 0,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="Task to learn: sql, or another small world.")
    ] = "sql",
    world: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Edition of the task's world.", show_default="the newest"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output directory.")] = Path(
        "quickstart"
    ),
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of worker processes.", show_default="the cores"
        ),
    ] = None,
    tiny: Annotated[
        bool,
        typer.Option(
            "--tiny", help="Only check that everything runs; the numbers are meaningless."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a small world and a base model, and compare methods."""
    from dph.cli.display.output import open_progress, quiet_libraries
    from dph.cli.request import require_writable

    require_writable(out)
    quiet_libraries()
    from dph.cli.display.lab import said_words
    from lab.quickstart.recipes import tiny_size
    from lab.quickstart.run import quickstart as compare_methods
    from lab.worlds import world_kind

    named = ",".join(world_kind(task, world).contenders) if methods is None else methods
    summary = compare_methods(
        out,
        methods=[label.strip() for label in named.split(",") if label.strip()],
        seed=seed,
        progress=open_progress(),
        task=task,
        edition=world,
        jobs=jobs or os.cpu_count() or 1,
        size=tiny_size(task, world) if tiny else None,
    )
    _show(summary, out, words=said_words(summary, task, world), seed=seed, as_json=as_json)


def _show(summary: dict[str, Any], out: Path, *, words: str, seed: int, as_json: bool) -> None:
    """Save the picture and the report, and print the table and where they lie."""
    from dph.cli.display.lab import save_picture, save_report
    from dph.cli.display.output import json_text

    picture, page = save_picture(summary, out), save_report(summary, out)
    if as_json:
        typer.echo(json_text(summary))
        return
    typer.echo(f"{_table(summary)}\nseed {seed}, {_took(summary)}")
    typer.echo(f"picture: {picture}\nreport: {page}\n\n{words}")


def _table(summary: dict[str, Any]) -> str:
    from dph.cli.display.output import table_text
    from dph.results.charts.tables import comparison_table

    return table_text(comparison_table(summary))


def _took(summary: dict[str, Any]) -> str:
    from dph.results.charts.text_table import duration

    return duration(summary["seconds"]["total"])


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
EngineOption = Annotated[
    Literal["cores", "ray"] | None,
    typer.Option("--engine", help="Engine that computes the runs.", show_default=_THE_STUDYS),
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
    bool,
    typer.Option("--no-run", help="Run nothing; write tables and figures of the existing rows."),
]
TableOption = Annotated[
    Literal["md", "csv", "latex"] | None,
    typer.Option("--table", help="Format of the printed tables.", show_default="scores as md"),
]


def study(
    file: StudyArgument,
    out: PlaceOption = None,
    jobs: JobsOption = None,
    engine: EngineOption = None,
    only: OnlyOption = None,
    keep: KeepOption = None,
    new_rule: NewRuleOption = False,
    status: StatusOption = False,
    no_run: NoRunOption = False,
    table: TableOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare methods over strengths, seeds and worlds, or continue."""
    from dph.cli.display.lab import said_status, said_tables
    from dph.cli.display.output import json_text, open_progress
    from dph.cli.request import require_writable
    from lab.study.costs import outlook
    from lab.study.outputs import make_report, report_document, write_outputs
    from lab.study.plan import wanted_runs
    from lab.study.planner import Planner
    from lab.study.rows import read_rows
    from lab.study.rule_lock import (
        current_lock,
        default_places,
        locked_choices,
        start_with_new_rule,
    )
    from lab.study.runner import Runner
    from lab.study.settings import load_study, with_settings

    loaded = with_settings(load_study(file), {"keep": keep, "engine": engine, "jobs": jobs})
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
            runner = Runner(planner, places, _jobs(loaded.file.study, places), wanted=wanted)
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
        typer.echo(f"scores: {places.parquet}\ntables: {places.tables}\nfigures: {places.figures}")


def _jobs(settings: "StudySettings", places: "Places") -> "Jobs":
    """Runner of the study's runs, as its settings say."""
    if settings.engine == "ray":
        from lab.study.runner import study_ray_jobs

        return study_ray_jobs(settings.jobs)
    from lab.study.runner import core_jobs

    return core_jobs(settings.jobs or os.cpu_count() or 1, places)
