"""All verbs put together, with ``dph doctor`` and ``dph quickstart``."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from dph.cli.compare import compare, diagnose, passk, show
from dph.cli.display.output import json_text, open_progress, quiet_libraries, table_text
from dph.cli.grade import grade_app
from dph.cli.options import (
    FAILED,
    JsonOption,
    add_verbs,
    argument,
    one_of,
    option,
    program,
    run_app,
)
from dph.cli.recipe import recipe_app
from dph.cli.results import card, export, figure, interpolate, push, report, table, view
from dph.cli.run import evaluate, presample, run, train
from dph.cli.tasks import convert, tasks_app
from dph.errors import SettingsError


def doctor(
    names: list[str] | None = argument(
        "PART", "Parts that must be ready: own, or the name of an extra.", None
    ),
    as_json: JsonOption = False,
) -> None:
    """Print versions, and what is installed or missing.

    It covers every engine and extra. Exit code 1 means that a named part is missing or too old
    (without names: own, the part that every run needs), and 2 that a name is unknown.
    """
    from dph.cli.display.machine import OWN, PARTS, machine, machine_line, parts

    wanted = [one_of(name, PARTS) for name in names or [OWN]]
    here = machine()
    found = {part.name: part for part in parts(cuda=here["cuda"])}
    shown = {name: found[name] for name in (wanted if names else found)}
    if as_json:
        content = {name: part.as_json() for name, part in shown.items()}
        typer.echo(json_text({**here, "parts": content}))
    else:
        lines = [machine_line(name, value) for name, value in here.items()]
        typer.echo("\n".join([*lines, *(part.line() for part in shown.values())]))
    if not all(found[name].ready for name in wanted):
        raise typer.Exit(FAILED)


def quickstart(
    methods: str | None = option(
        "--methods A,B,...",
        "Recipes to compare, by their names in OUT/recipes, separated by commas.",
        None,
        show_default="grpo,dph_f,rkl",
    ),
    seed: int = option("--seed N", "Seed of training.", 0, min=0),
    task: str = option("--task NAME", "Task to learn: countdown or sql.", "countdown"),
    out: Path = option("--out DIR", "Output directory.", Path("quickstart")),
    jobs: int | None = option(
        "--jobs N", "Number of methods at a time.", None, min=1, show_default="the cores"
    ),
    tiny: bool = option(
        "--tiny", "Only check that everything runs; the numbers are meaningless.", False
    ),
    as_json: JsonOption = False,
) -> None:
    """Compare methods on a small task that comes with the package.

    OUT has everything that further runs need: `dph run OUT/recipes/dph_f.toml --out RUN`.
    """
    from dph.cli.request import require_writable

    require_writable(out)
    quiet_libraries()
    from dph.quickstart.run import METHODS
    from dph.quickstart.run import quickstart as compare_methods

    names = METHODS if methods is None else [name.strip() for name in methods.split(",")]
    summary = compare_methods(
        out,
        progress=open_progress(),
        task=task,
        methods=[name for name in names if name],
        seed=seed,
        tiny=tiny,
        jobs=jobs or os.cpu_count() or 1,
    )
    told = _finish(summary, out, tiny=tiny)
    typer.echo(json_text(summary) if as_json else told)


def _finish(summary: dict[str, Any], out: Path, *, tiny: bool) -> str:
    """Draw the picture, write the report, and say where everything is."""
    from dph.results.charts.picture import quickstart_picture
    from dph.results.charts.tables import comparison_table
    from dph.results.report.page import write_report
    from dph.results.report.report_data import read_report
    from dph.runs.directory import RunDirectory, read_metrics

    words, runs = summary["words"], {name: out / name for name in summary["methods"]}
    metrics = {name: read_metrics(RunDirectory(run).metrics) for name, run in runs.items()}
    picture, page = out / "quickstart.png", out / "report.html"
    quickstart_picture(summary, metrics, headline=words).save(picture)
    data = read_report(list(runs.values()), seed=summary["seed"])
    write_report(data, page, title="dph quickstart", lead=words)
    method = next(iter(runs))
    lines = [
        words,
        "",
        table_text(comparison_table(summary)),
        "Losses are net: problems that only the trained model solves are subtracted.",
        f"Training has the seed {summary['seed']}; one seed is one draw of many.",
        "",
        f"picture: {picture}",
        f"report: {page}",
        f"differences with intervals: dph compare {out}",
        f"lost problems: dph show {out / method} --lost",
    ]
    if not tiny:  # whose few problems fit other settings than those of the recipes
        recipe = out / "recipes" / f"{method}.toml"
        lines.append(f"another run: dph run {recipe} --set train.steps=80 --out {out / 'longer'}")
    return "\n".join(lines)


app = program(
    "dph",
    "Keep language models diverse while reinforcement learning makes them right.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.",
)
SECTIONS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Start": (quickstart, doctor, recipe_app, tasks_app),
    "Train": (run, presample, train),
    "Measure": (evaluate, grade_app, passk, compare, diagnose),
    "Report": (report, view, show, table, figure),
    "Publish": (export, interpolate, convert, card, push),
}
for section, verbs in SECTIONS.items():
    for verb in verbs:
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, rich_help_panel=section)
        else:
            add_verbs(app, {verb.__name__: verb}, section=section)


def moved(context: typer.Context) -> None:
    """Say where a verb has gone, and run it there if that package is installed."""
    name = str(context.info_name)
    command = "dph-corpus" if name == "corpus" else f"dph-corpus {name}"
    said = f"`dph {name}` is `{command}` of the package dph-corpus"
    if find_spec("dph_corpus") is None:
        raise SettingsError(f"{said}: in a checkout of the repository, pip install . ./corpus")
    typer.echo(f"dph: {said}", err=True)
    words = context.args if name == "corpus" else [name, *context.args]
    raise typer.Exit(import_module("dph_corpus.cli").main(words))


for name in ("corpus", "base", "sft"):
    context_settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=context_settings)(moved)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; ``arguments`` default to the process's."""
    return run_app(app, "dph", list(sys.argv[1:] if arguments is None else arguments))
