"""``dph convert``: problems as verl's data sets, and back."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import ROW_FILES, JsonOption


class Format(StrEnum):
    """What a file is converted to."""

    VERL = "verl"
    DPH = "dph"


def convert(
    to: Annotated[Format, typer.Option("--to", help="verl: a .parquet file; dph: a .jsonl file.")],
    source: Annotated[Path, typer.Option("--input", metavar="FILE", help=f"Rows: {ROW_FILES}.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="What to write.")],
    data_source: Annotated[
        str | None,
        typer.Option(
            "--data-source",
            metavar="NAME",
            help="--to verl: what its reward functions are chosen by "
            "[default: the row's own, or dph].",
        ),
    ] = None,
    ground_truth: Annotated[
        str | None,
        typer.Option(
            "--ground-truth",
            metavar="FIELD",
            help="The problems' field with the gold answer "
            "[default: answer; --to verl: answer or gold_sql].",
        ),
    ] = None,
    number: Annotated[
        bool,
        typer.Option("--number-rows", help="--to dph: ids by position, not by extra_info.index."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Convert problems to verl's parquet (data_source, prompt, reward_model, extra_info) or back.

    Nothing is lost on the way: the other fields of a problem go into extra_info.answer_json, the
    other columns of verl's rows into the problems' field verl_row.
    """
    from dph.cli.display.output import json_text

    _require_options(to, data_source=data_source, number=number)
    done = _converted(
        to, source, out, data_source=data_source, ground_truth=ground_truth, number=number
    )
    document = {"schema": 1, "to": to.value, "input": str(source), "out": str(out), "rows": done}
    typer.echo(json_text(document) if as_json else f"{done} rows -> {out}")


def _converted(
    to: Format,
    source: Path,
    out: Path,
    *,
    data_source: str | None,
    ground_truth: str | None,
    number: bool,
) -> int:
    """Write the file and count its rows."""
    from dph.cli.display.progress import open_progress
    from dph.files.rows import count_rows
    from dph.tasks.verl.files import problems_to_verl, verl_to_problems

    with open_progress().task("convert", count_rows(source), "rows") as advance:

        def progress(rows: int) -> None:
            advance(rows, "")

        if to is Format.VERL:
            return problems_to_verl(
                source,
                out,
                data_source=data_source,
                ground_truth=ground_truth,
                on_progress=progress,
            )
        return verl_to_problems(
            source,
            out,
            ground_truth=ground_truth or "answer",
            number=number,
            on_progress=progress,
        )


def _require_options(to: Format, *, data_source: str | None, number: bool) -> None:
    from dph.errors import SettingsError

    if to is Format.DPH and data_source is not None:
        raise SettingsError("--data-source belongs to --to verl: problems have none")
    if to is Format.VERL and number:
        raise SettingsError("--number-rows belongs to --to dph: problems have ids already")
