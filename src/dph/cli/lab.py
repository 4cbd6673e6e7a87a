"""``dph study``: methods x strengths x seeds x worlds, by a rule that was said before."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dph.cli.options import JsonOption, SetOption

if TYPE_CHECKING:
    from dph._processes.jobs.processes import Jobs
    from dph.lab.base.recipes import LMRecipe
    from dph.lab.study.rows import Places
    from dph.lab.study.settings import StudySettings


# ``dph base`` and ``dph sft``: models by maximum likelihood, before RL.

RecipeArgument = Annotated[
    Path, typer.Argument(metavar="RECIPE", help='Recipe with kind = "base" or "sft".')
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Directory [default: runs/<name>].")
]


def base(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a base model on corpora, or continue one.

    The learning rate warms up, stays constant and anneals. Training continues from the newest
    checkpoint. DIR/model has the model and its card; checkpoints are removed at the end.
    """
    settings, directory = _prepared(recipe, "base", overrides, out)
    from dph.cli.display.output import open_progress
    from dph.lab.base.base import train_base
    from dph.lab.base.recipes import BaseRecipe

    assert isinstance(settings, BaseRecipe)
    _say(train_base(settings, directory, open_progress()), as_json)


def sft(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a model on responses, in stages.

    Only responses are learnt, in packed rows. Training continues from the newest checkpoint of its
    stage and writes DIR/<stage>/model. Needs dph-rl[sft].
    """
    settings, directory = _prepared(recipe, "sft", overrides, out)
    from dph.cli.display.output import open_progress
    from dph.lab.base.recipes import SFTRecipe
    from dph.lab.base.sft import train_sft

    assert isinstance(settings, SFTRecipe)
    _say(train_sft(settings, directory, open_progress()), as_json)


def _prepared(
    path: Path, kind: str, overrides: list[str] | None, out: Path | None
) -> tuple["LMRecipe", Path]:
    """The recipe, checked, and the directory."""
    from dph.cli.display.output import quiet_libraries
    from dph.cli.request import require_writable
    from dph.errors import SettingsError
    from dph.lab.base.recipes import load_lm_recipe

    settings = load_lm_recipe(path, overrides or ())
    if settings.kind != kind:
        raise SettingsError(f'{path} has kind = "{settings.kind}": run `dph {settings.kind}`')
    directory = out or Path("runs") / settings.name
    require_writable(directory)
    quiet_libraries()
    return settings, directory


def _say(model: Path, as_json: bool) -> None:
    from dph.cli.display.output import json_text

    typer.echo(json_text({"model": str(model)}) if as_json else f"model: {model}")


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
    from dph.lab.study.costs import outlook
    from dph.lab.study.outputs import make_report, report_document, write_outputs
    from dph.lab.study.plan import wanted_runs
    from dph.lab.study.planner import Planner
    from dph.lab.study.rows import read_rows
    from dph.lab.study.rule_lock import (
        current_lock,
        default_places,
        locked_choices,
        start_with_new_rule,
    )
    from dph.lab.study.runner import Runner
    from dph.lab.study.settings import load_study, with_settings

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
        from dph.lab.study.runner import study_ray_jobs

        return study_ray_jobs(settings.jobs)
    from dph.lab.study.runner import core_jobs

    return core_jobs(settings.jobs or os.cpu_count() or 1, places)
