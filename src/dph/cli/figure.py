"""``dph figure`` and ``dph table``: what the paper shows, of run directories."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption, SetNamesOption


class FigureKind(StrEnum):
    """The paper's figures."""

    STYLES = "styles"
    PASS_AT_K = "pass-at-k"
    RETENTION = "retention"
    ETA = "eta"
    PROGRESS = "progress"


class PaperTable(StrEnum):
    """The paper's tables."""

    SCORES = "scores"
    ELSEWHERE = "elsewhere"
    RETENTION = "retention"
    ETA = "eta"


class TableFormat(StrEnum):
    """How a table is written."""

    MD = "md"
    LATEX = "latex"
    CSV = "csv"


RunsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Run directories, or a directory of runs."),
]
BootstrapOption = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="Seed of the bootstrap.")
]
ApartOption = Annotated[
    bool,
    typer.Option("--apart", help="Keep runs apart that differ in their seed alone."),
]


def figure(
    kind: Annotated[
        FigureKind,
        typer.Argument(
            help="styles (Figure 2), pass-at-k (3), retention (4), progress (5: Pass@8 over the "
            "steps of training), eta (what a method's strength does)."
        ),
    ],
    runs: RunsArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The .pdf, .png or .svg to write.")
    ],
    set_names: SetNamesOption = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            min=1,
            metavar="K",
            help="pass-at-k: the largest k; retention: samples of a draw; eta, progress: k of "
            "Pass@k.",
            show_default="the usual",
        ),
    ] = None,
    apart: ApartOption = False,
    seed: BootstrapOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw a figure of the paper from run directories, a panel a set, with 95% intervals.

    Runs that differ in their seed alone are one method, with intervals over seeds.
    """
    from dph.cli.display.output import json_text
    from dph.cli.out_file import require_out_file
    from dph.results.charts.picture_file import require_picture

    require_picture(out)
    require_out_file(out)
    from dph.results.figure import Asked, save_paper_figure

    asked = Asked(places=runs, sets=set_names or (), k=k, seed=seed, apart=apart)
    drawing = save_paper_figure(kind.value, asked, out)
    if as_json:
        document = {"schema": 1, "kind": kind.value, "figure": str(out)}
        typer.echo(
            json_text(document | {"shown": list(drawing.shown), "notes": list(drawing.notes)})
        )
        return
    for note in drawing.notes:
        typer.echo(note, err=True)
    typer.echo(f"figure: {out}, of {', '.join(drawing.shown)}")


def table(
    kind: Annotated[
        PaperTable,
        typer.Argument(
            help="scores (Tables 1, 3, 4), elsewhere (2: tasks that were not trained), retention "
            "(what was kept and gained), eta (8: scores over a method's strength)."
        ),
    ],
    runs: RunsArgument,
    form: Annotated[
        TableFormat, typer.Option("--format", help="How it is written.")
    ] = TableFormat.MD,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it here [default: to the terminal]."),
    ] = None,
    set_names: SetNamesOption = None,
    ks: Annotated[
        list[int] | None,
        typer.Option(
            "-k",
            min=1,
            metavar="K",
            help="k of Pass@k; may be repeated [default: 8, 16]. retention: samples of a draw.",
        ),
    ] = None,
    apart: ApartOption = False,
    seed: BootstrapOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a table of the paper from run directories, with 95% intervals.

    Runs that differ in their seed alone are one method, with intervals over seeds.
    """
    from dph._base.files import write_text
    from dph.cli.display.output import json_text
    from dph.cli.out_file import require_out_file
    from dph.results.charts.text_table import FORMATS

    if out is not None:
        require_out_file(out)
    from dph.results.figure import Asked, paper_table

    asked = Asked(places=runs, sets=set_names or (), seed=seed, apart=apart)
    made = paper_table(kind.value, asked, ks)
    _, write = FORMATS[form.value]
    if out is not None:
        write_text(out, write(made))
    if as_json:
        rows = [dict(zip(made.columns, map(str, row), strict=True)) for row in made.rows]
        document = {"schema": 1, "kind": kind.value, "table": None if out is None else str(out)}
        typer.echo(json_text(document | {"rows": rows, "note": made.note}))
    elif out is None:
        typer.echo(write(made), nl=False)
    else:
        typer.echo(f"table: {out}")
