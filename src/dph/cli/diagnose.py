"""``dph diagnose``: what a run lost against its initial policy, and where it went."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption, OlderSetOption, SetNamesOption, renamed_set


def diagnose(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, evaluated.")],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="RUN_OR_EVALUATION",
            help="Compare with this run or evaluation [default: the run's initial policy].",
        ),
    ] = None,
    set_names: SetNamesOption = None,
    older_set: OlderSetOption = None,
    ks: Annotated[
        list[int] | None,
        typer.Option(
            "-k", min=1, metavar="K", help="k of Pass@k; may be repeated [default: 8, 16, 32]."
        ),
    ] = None,
    fdr: Annotated[
        float,
        typer.Option(
            "--fdr",
            metavar="RATE",
            help="Chance that two draws of one model are told apart in anything.",
        ),
    ] = 0.05,
    died: Annotated[
        float,
        typer.Option(
            "--died",
            metavar="PART",
            help="A style died when at most this part of its share is left.",
        ),
    ] = 0.1,
    problems: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="List at most N lost and N gained problems a set."),
    ] = 10,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the intervals.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say which problems and ways of answering a run lost, and what its log says about it.

    A problem is lost or gained when two draws of one model would not show as much;
    docs/diagnosis.md says what is tested and what is not. --json has every problem and every
    number.
    """
    from dph.cli.display.diagnosis import diagnosis_text
    from dph.cli.display.output import json_text
    from dph.diagnosis import diagnose as diagnose_run
    from dph.diagnosis import diagnosis_document

    set_names = renamed_set(older_set, set_names, now="--set-name")
    found = diagnose_run(run, against, sets=set_names or (), ks=ks, fdr=fdr, died=died, seed=seed)
    if as_json:
        typer.echo(json_text(diagnosis_document(found)))
    else:
        typer.echo(diagnosis_text(found, most=problems))
