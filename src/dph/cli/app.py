"""The verbs put together, and what becomes of an error."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from dph.cli.compare import compare, diagnose, passk
from dph.cli.evaluate import evaluate, export, interpolate
from dph.cli.grade import grade_app
from dph.cli.options import FAILED, JsonOption, add_verbs, argument, one_of, program, run_app
from dph.cli.quickstart import quickstart
from dph.cli.recipe import recipe_app
from dph.cli.results import card, figure, push, report, table, view
from dph.cli.run import presample, run, train
from dph.cli.show import show
from dph.cli.tasks import convert, tasks_app
from dph.errors import SettingsError


def doctor(
    names: Annotated[
        list[str] | None,
        argument("PART", "Parts that must be ready: own, or the name of an extra."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print versions, and what is installed and what is missing.

    It covers every engine and extra. Exit code 1 means that a named part is missing or too old
    (without names: own, the part that every run needs), and 2 that a name is unknown.
    """
    from dph.cli.display.machine import OWN, PARTS, machine, machine_line, parts
    from dph.cli.display.output import json_text

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


app = program(
    "dph",
    "Keep language models diverse while reinforcement learning makes them right.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.",
)
SECTIONS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Start": (quickstart, doctor, recipe_app, tasks_app),
    "Train": (run, presample, train),
    "Measure": (evaluate, grade_app, passk, compare, diagnose),
    "Look": (report, view, show, table, figure),
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


_ANY = {"allow_extra_args": True, "ignore_unknown_options": True}
for name in ("corpus", "base", "sft"):
    app.command(name, hidden=True, add_help_option=False, context_settings=_ANY)(moved)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; ``arguments`` default to the process's."""
    return run_app(app, "dph", list(sys.argv[1:] if arguments is None else arguments))
