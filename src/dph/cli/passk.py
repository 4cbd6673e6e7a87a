"""``dph passk``: Pass@k of any file of graded samples."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import ROW_FILES, JsonOption


def passk(
    source: Annotated[
        Path,
        typer.Option(
            "--input", metavar="FILE", help=f"problem_id and reward in each row: {ROW_FILES}."
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="FILE", help="Base model's file: paired differences to it."
        ),
    ] = None,
    ks: Annotated[
        list[int] | None,
        typer.Option(
            "-k",
            "--k",
            min=1,
            metavar="K",
            help="k of Pass@k; may be repeated [default: 1, 2, 4 ...].",
        ),
    ] = None,
    retention_k: Annotated[
        int, typer.Option(min=1, metavar="K", help="Samples of a draw for keep and explore.")
    ] = 8,
    set_name: Annotated[
        str | None, typer.Option("--set-name", metavar="NAME", help="Only rows of this set.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Mean and unbiased Pass@k of graded samples, with 95% intervals over problems.

    A sample is correct if its outcome is CORRECT or, in a file without outcomes, its reward is 1.
    """
    from dph.cli.display.output import json_text, table_text
    from dph.cli.display.passk import passk_json, passk_table
    from dph.runs.evaluate.rewards_file import read_rewards
    from dph.runs.evaluate.rewards_summary import summarize_rewards

    rewards = read_rewards(source, set_name=set_name)
    others = None if against is None else read_rewards(against, set_name=set_name)
    summary = summarize_rewards(rewards, others, ks=ks, retention_k=retention_k, seed=seed)
    if as_json:
        typer.echo(json_text(passk_json(summary, source, against)))
    else:
        typer.echo(table_text(passk_table(summary, source, against, retention_k)))
