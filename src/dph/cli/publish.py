"""``dph card`` and ``dph push``: a run's model card, and its checkpoint on the Hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.options import JsonOption

if TYPE_CHECKING:
    from dph.results.publish.card import FinishedRun

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, trained.")]


def card(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The card [default: RUN/README.md]."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run's model card: method, recipe, what was measured, and hashes. Nothing is sent."""
    from dph.cli.display.output import json_text
    from dph.cli.display.output import quiet_libraries

    finished = _finished(run)
    quiet_libraries()
    from dph.results.publish import write_card

    path = write_card(finished, out)
    typer.echo(json_text({"card": str(path)}) if as_json else f"card: {path}")


def push(
    run: RunArgument,
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The model on the Hub.")],
    private: Annotated[
        bool, typer.Option("--private", help="Where the repository is made: for you alone.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Upload a run's result with its card and recipe to the Hub, in one commit.

    RUN/README.md is taken as the card where you have made it your own. `hf auth login` or HF_TOKEN
    says who you are.
    """
    from dph.cli.display.output import json_text
    from dph.cli.display.output import quiet_libraries

    finished = _finished(run)
    quiet_libraries()
    from dph.results.publish import push as push_run

    url = push_run(finished, name, private=private)
    content = {"checkpoint": str(finished.checkpoint), "commit": url}
    typer.echo(json_text(content) if as_json else f"{finished.checkpoint.name}: {url}")


def _finished(place: Path) -> "FinishedRun":
    """The run, and a word where its card cannot set it beside what it began with."""
    from dph.results.publish.card import read_finished_run
    from dph.runs.found_runs import the_run

    run = read_finished_run(the_run(place))
    if run.why_alone:
        typer.echo(run.why_alone, err=True)
    return run
