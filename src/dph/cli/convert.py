"""``dph convert``: problems as verl's data sets and back, evaluations as logs of Inspect."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import ROW_FILES, JsonOption


class Format(StrEnum):
    """What a file is converted to."""

    VERL = "verl"
    DPH = "dph"
    INSPECT = "inspect"


RunArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RUN", help="--to inspect: a run directory, evaluated."),
]
InputOption = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", help=f"--to verl, dph: rows, {ROW_FILES}."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="What to write; --to inspect: a directory [default: RUN/inspect].",
    ),
]


def convert(
    to: Annotated[
        Format,
        typer.Option(
            "--to", help="verl: a .parquet file; dph: a .jsonl file; inspect: logs of a run."
        ),
    ],
    run: RunArgument = None,
    source: InputOption = None,
    out: OutOption = None,
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
    """Convert problems to verl's parquet or back, or a run's evaluation to logs of Inspect.

    To verl (data_source, prompt, reward_model, extra_info) and back nothing is lost: the other
    fields of a problem go into extra_info.answer_json, the other columns of verl's rows into the
    problems' field verl_row. Logs are one for each set, and one for its greedy answers; open them
    with `inspect view --log-dir`.
    """
    from dph.cli.display.output import json_text

    _require_options(to, data_source=data_source, number=number, ground_truth=ground_truth)
    if to is Format.INSPECT:
        _to_inspect(_required(run, "RUN", to), source, out, as_json=as_json)
        return
    if run is not None:
        raise typer.BadParameter(f"--to {to.value} takes --input FILE, not a run, got {run}")
    source, out = _required(source, "--input", to), _required(out, "--out", to)
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
    from dph._base.files.rows import count_rows
    from dph.cli.display.progress import open_progress
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


def _to_inspect(run: Path, source: Path | None, out: Path | None, *, as_json: bool) -> None:
    """Write the logs of a run and say where they are."""
    from dph.cli.display.output import json_text
    from dph.cli.display.progress import open_progress
    from dph.cli.request import require_writable
    from dph.results.inspect import write_inspect_logs
    from dph.runs.evaluate.evaluated_runs import require_evaluated
    from dph.runs.evaluate.samples_file import read_samples

    if source is not None:
        raise typer.BadParameter(f"--to inspect takes a run, not --input {source}")
    directory = out or run / "inspect"
    answers = read_samples(require_evaluated(run)).num_rows
    require_writable(directory)
    with open_progress().task("convert", answers, "answers") as advance:
        logs, notes = write_inspect_logs(run, directory, on_progress=lambda n: advance(n, ""))
    for note in notes:
        typer.echo(note, err=True)
    document = {"schema": 1, "to": "inspect", "run": str(run), "out": str(directory)}
    found = [{"set": log.set_name, "log": str(log.path), "answers": log.answers} for log in logs]
    if as_json:
        typer.echo(json_text(document | {"logs": found, "notes": notes}))
        return
    for log in logs:
        typer.echo(f"{log.answers} answers -> {log.path}")
    typer.echo(f"inspect view --log-dir {directory}")


def _required(path: Path | None, name: str, to: Format) -> Path:
    if path is None:
        raise typer.BadParameter(f"--to {to.value} needs {name}")
    return path


def _require_options(
    to: Format, *, data_source: str | None, number: bool, ground_truth: str | None
) -> None:
    from dph.errors import SettingsError

    if to is not Format.VERL and data_source is not None:
        raise SettingsError("--data-source belongs to --to verl: nothing else has one")
    if to is not Format.DPH and number:
        raise SettingsError("--number-rows belongs to --to dph: problems have ids already")
    if to is Format.INSPECT and ground_truth is not None:
        raise SettingsError("--ground-truth belongs to --to verl and --to dph")
