"""``dph doctor``: what is installed here, and what each engine lacks."""

from typing import Annotated

import typer

from dph.cli.options import JsonOption


def doctor(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PART]...", help="What has to be ready: own, the name of an extra, or smollm2."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print versions and devices, and for every engine and extra what is there and what is missing.

    The exit code is 1 where something is missing or too old that was asked for: the parts that are
    named, and what every run needs (own) without names. 2 is for a name that is no part. smollm2 is
    a real language model: named, its files are read and it has to continue a sentence.
    """
    from dph.cli.display.machine import OWN, PARTS, Part, parts
    from dph.cli.display.machine import machine, machine_line
    from dph.cli.display.output import json_text
    from dph.cli.display.machine import NAME, RealModel, real_model
    from dph.cli.options import FAILED
    from dph.cli.options import one_of

    wanted = [one_of(name, (*PARTS, NAME)) for name in names or [OWN]]
    here = machine()
    found: dict[str, Part | RealModel] = {part.name: part for part in parts(cuda=here["cuda"])}
    if not names or NAME in names:
        found[NAME] = real_model(whole=bool(names))
    shown = {name: found[name] for name in (wanted if names else found)}
    if as_json:
        typer.echo(
            json_text({**here, "parts": {name: part.as_json() for name, part in shown.items()}})
        )
    else:
        for name, value in here.items():
            typer.echo(machine_line(name, value))
        for part in shown.values():
            typer.echo(part.line())
    if not all(found[name].ready for name in wanted):
        raise typer.Exit(FAILED)
