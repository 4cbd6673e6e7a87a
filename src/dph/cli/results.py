"""Verbs that show runs (report, view, figure, table), and that write or publish their models."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph._base.provenance import install_command
from dph.cli.display.output import json_text, open_progress, quiet_libraries
from dph.cli.options import (
    BootstrapSeed,
    ColumnOption,
    IntervalsSeed,
    JsonOption,
    SetNamesOption,
    SetOption,
    TrainedRunArgument,
    argument,
    option,
)
from dph.errors import DataError, SettingsError

if TYPE_CHECKING:
    from dph.results.publish import FinishedRun
    from dph.runs.written_models import Interpolations


def card(
    run: TrainedRunArgument,
    out: Path | None = option("--out FILE", "File of the card [default: RUN/README.md].", None),
    as_json: JsonOption = False,
) -> None:
    """Write a run's model card; nothing is sent.

    The card has the method, the recipe, measurements and hashes.
    """
    finished = _finished(run)
    quiet_libraries()
    from dph.results.publish import write_card

    if out is not None:
        require_out_file(out)
    path = write_card(finished, out)
    typer.echo(json_text({"card": str(path)}) if as_json else f"card: {path}")


def push(
    run: TrainedRunArgument,
    name: Annotated[str, argument("OWNER/NAME", "Name of the model on the Hub.")],
    private: bool = option("--private", "Create the repository as private.", False),
    as_json: JsonOption = False,
) -> None:
    """Upload a run's result to the Hub, in one commit.

    Its card and recipe are uploaded too. If you have edited RUN/README.md, that file is the card.
    Log in with `hf auth login`, or set HF_TOKEN.
    """
    finished = _finished(run)
    quiet_libraries()
    from dph.results.publish import push as push_run

    url = push_run(finished, name, private=private)
    content = {"checkpoint": str(finished.checkpoint), "commit": url}
    typer.echo(json_text(content) if as_json else f"{finished.checkpoint.name}: {url}")


def _finished(place: Path) -> "FinishedRun":
    from dph.results.publish import read_finished_run
    from dph.results.read.found_runs import the_run

    run = read_finished_run(the_run(place))
    if run.why_alone:
        typer.echo(run.why_alone, err=True)
    return run


PlacesArgument = Annotated[
    list[Path],
    argument(
        "RUN",
        "Run directories, a directory of runs, or other tools' answers, the base model's first.",
    ),
]


def view(
    runs: PlacesArgument,
    port: int = option("--port N", "Port; 0 picks a free one.", 8391, min=0, max=65535),
    host: str = option(
        "--host HOST",
        "Address to listen on; an address that other machines can reach requires a "
        "token, which is printed.",
        "127.0.0.1",
    ),
    name: list[str] | None = option("--name NAME", "Additional host name to answer to.", None),
    token: bool = option("--token", "Require a token on 127.0.0.1 too.", False),
    title: str = option("--title TEXT", "Title of the page.", "dph view"),
    seed: IntervalsSeed = 0,
    _columns: ColumnOption = None,
) -> None:
    """Serve the report of large or unfinished runs to a browser.

    The page follows metrics.jsonl and progress.parquet as they grow. The server reads only the run
    directories; Ctrl-C ends it.
    """
    try:
        from dph.results.view import ServedRuns, access_for, serve
    except ModuleNotFoundError as error:
        raise SettingsError(f"{error.name} is missing: {install_command('view')}") from error

    access = access_for(host, name or (), ask=token)
    served = ServedRuns(runs, title=title, seed=seed)
    typer.echo(f"{len(served.page.data.runs)} models, {served.page.answers:,} answers", err=True)
    serve(served, access, port=port, on_ready=lambda address: typer.echo(f"view: {address}"))


def require_out_file(out: Path, flag: str = "--out") -> None:
    """Refuse a file, of an option ``flag``, that could not be written."""
    from dph.cli.request import require_writable

    if out.is_dir():
        raise DataError(f"{flag} names a directory, {out}; name the file to write")
    if not out.absolute().parent.is_dir():
        raise DataError(f"there is no directory {out.absolute().parent} to write {out.name} into")
    require_writable(out.absolute().parent)


FigureKind = StrEnum("FigureKind", ["styles", "pass-at-k", "retention", "eta", "progress"])
PaperTable = StrEnum("PaperTable", ["scores", "elsewhere", "retention", "eta"])
TableFormat = StrEnum("TableFormat", ["md", "latex", "csv"])
RunsArgument = Annotated[list[Path], argument("RUN", "Run directories, or a directory of runs.")]
ApartOption = Annotated[
    bool, option("--apart", "Do not combine runs that differ only in their seed.")
]


def figure(
    kind: Annotated[
        FigureKind,
        argument(
            None,
            "styles (Figure 2), pass-at-k (3), retention (4), progress (5: Pass@8 over the "
            "steps of training), eta (scores over a method's strength).",
        ),
    ],
    runs: RunsArgument,
    out: Annotated[Path, option("--out FILE", "File to write: .pdf, .png or .svg.")],
    set_names: SetNamesOption = None,
    k: int | None = option(
        "-k K",
        "pass-at-k: the largest k; retention: samples per draw; eta, progress: k of Pass@k.",
        None,
        min=1,
        show_default="the usual",
    ),
    apart: ApartOption = False,
    seed: BootstrapSeed = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw one of the paper's figures from run directories.

    There is one panel per set, with 95% intervals. Runs that differ only in their seed count as one
    method, with intervals over seeds.
    """
    from dph.results.charts.picture import require_picture

    require_picture(out)
    require_out_file(out)
    from dph.results.paper import paper_figure
    from dph.results.paper_models import FigureRequest

    asked = FigureRequest(places=runs, sets=set_names or (), k=k, seed=seed, apart=apart)
    drawing = paper_figure(kind.value, asked)
    drawing.picture.save(out)
    document = {"schema": 1, "kind": kind.value, "figure": str(out), "shown": [*drawing.shown]}
    text = f"figure: {out}, of {', '.join(drawing.shown)}"
    _print_with_notes(document, text, drawing.notes, as_json=as_json)


def _print_with_notes(
    document: dict[str, Any], text: str, notes: Sequence[str], *, as_json: bool
) -> None:
    """Print a result: notes are part of the document, and go to stderr next to the text."""
    if as_json:
        typer.echo(json_text({**document, "notes": list(notes)}))
        return
    for note in notes:
        typer.echo(note, err=True)
    typer.echo(text)


def table(
    kind: Annotated[
        PaperTable,
        argument(
            None,
            "scores (Tables 1, 3, 4), elsewhere (2: tasks that were not trained), retention "
            "(problems kept and gained), eta (8: scores over a method's strength).",
        ),
    ],
    runs: RunsArgument,
    form: TableFormat = option("--format", "Output format.", TableFormat["md"]),
    out: Path | None = option(
        "--out FILE", "File to write [default: print to the terminal].", None
    ),
    set_names: SetNamesOption = None,
    ks: list[int] | None = option(
        "-k K",
        "k of Pass@k; may be repeated [default: 8, 16]. retention: samples per draw.",
        None,
        min=1,
    ),
    apart: ApartOption = False,
    seed: BootstrapSeed = 0,
    as_json: JsonOption = False,
) -> None:
    """Make one of the paper's tables from run directories.

    Numbers have 95% intervals. Runs that differ only in their seed count as one method, with
    intervals over seeds.
    """
    from dph._base.files import write_text
    from dph.results.charts.text_table import FORMATS

    if out is not None:
        require_out_file(out)
    from dph.results.paper import paper_table
    from dph.results.paper_models import FigureRequest

    asked = FigureRequest(places=runs, sets=set_names or (), seed=seed, apart=apart)
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


def report(
    runs: PlacesArgument,
    out: Path = option("--out FILE", "File to write.", Path("report.html")),
    title: str = option("--title TEXT", "Title of the page.", "dph report"),
    most_answers: int | None = option(
        "--most-answers N",
        "Keep only a run's N most frequent answers to each problem.",
        None,
        min=1,
        show_default="all",
    ),
    longest: int = option(
        "--longest N", "Keep only the first N characters of a text.", 50_000, min=1
    ),
    seed: IntervalsSeed = 0,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write runs and all their answers as one HTML file.

    The file has the comparison, curves, training, the diagnosis, and every problem with the answers
    of the runs and their initial policy side by side. It works offline. Two files of answers are
    enough: `dph report base.jsonl trained.jsonl`.
    """
    from dph.results.report.answers import Limits
    from dph.results.report.page import write_report
    from dph.results.report.report_data import read_report

    require_out_file(out)
    data = read_report(runs, seed=seed)
    limits = Limits(longest=longest, most=most_answers)
    written = write_report(data, out, limits=limits, title=title)
    document = {"schema": 1, "report": str(out), "bytes": written.size}
    document |= {"code_bytes": written.code, "answers": written.answers}
    document |= {"runs": {str(run.path): run.label for run in data.runs}}
    text = f"report: {out}, {written.size / 1e6:.1f} MB, {written.answers:,} answers"
    if written.size > 50_000_000:  # a browser takes seconds to open it
        text += (
            "\nbrowsers open a file of this size slowly; "
            "--most-answers and --longest make it smaller"
        )
    _print_with_notes(document, text, data.notes, as_json=as_json)


def export(
    run: TrainedRunArgument,
    out: Annotated[Path, option("--out DIR", "New directory for the model.")],
    weights: str = option("--weights DTYPE", "Precision to save: float32 or bfloat16.", "float32"),
    as_json: JsonOption = False,
) -> None:
    """Write a run's result as a plain model directory.

    The model is the run's result (evaluate.result), with any adapter merged. transformers, vLLM and
    other programs can load it; its generation_config is that of the initial policy.
    """
    from dph.runs.finished_models import ends_of, require_free

    if weights not in ("float32", "bfloat16"):
        raise SettingsError(f'--weights is "float32" or "bfloat16", got {weights!r}')
    require_free(out)
    ends_of(run)
    quiet_libraries()
    from dph.runs.written_models import export as export_run

    path = export_run(run, out, weights="bfloat16" if weights == "bfloat16" else "float32")
    typer.echo(json_text({"model": str(path), "weights": weights}) if as_json else f"model: {path}")


def interpolate(
    run: TrainedRunArgument,
    weights: str = option(
        "--weights X,X...", "Weight x in base + x (final - base), between 0 and 1.", "0.3,0.5,0.7"
    ),
    extrapolate: bool = option("--extrapolate", "Allow weights below 0 and above 1.", False),
    step: int | None = option(
        "--from STEP", "Mix with the checkpoint after this step instead of base.", None
    ),
    layers: str | None = option(
        "--layers A-B", "Mix only layers A to B - 1, counted from 0; the rest is the run's.", None
    ),
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mix a run's weights with its initial or an early policy's.

    Every mixture is written as a plain model directory, RUN/interpolated/<x>, and evaluated there;
    finished ones are kept. The table compares them with the initial policy and the run.
    """
    from dph.cli.request import read_request
    from dph.runs.directory import RunDirectory
    from dph.runs.finished_models import ends_of, require_weights

    try:
        wanted = [float(word) for word in weights.split(",") if word.strip()]
    except ValueError as error:
        raise SettingsError(
            f"--weights takes numbers separated by commas, such as 0.3,0.5,0.7; got {weights!r}"
        ) from error
    block = None if layers is None else _layers(layers)
    require_weights(wanted, extrapolate=extrapolate)
    request = read_request(RunDirectory(run).recipe_file, overrides=overrides, seed=None, out=run)
    if not request.recipe.data.sets:
        raise SettingsError("there is nothing to evaluate on: name a set in [data.sets]")
    ends_of(run, step=step)
    with request.prepared("evaluate") as plan:
        from dph.runs.written_models import interpolation_stage

        made = interpolation_stage(plan, wanted, open_progress(), step=step, layers=block)
    compared = _comparison(run, made, as_json=as_json)
    if not as_json:
        places = "\n".join(f"{each.name}: {each.directory}" for each in made.between)
        typer.echo(f"{compared}\n\n{places}")
        return
    between = [
        {"weight": each.weight, "directory": str(each.directory), "evaluation": each.evaluation}
        for each in made.between
    ]
    document = {"schema": 1, "run": str(run), "base": made.base, "evaluation": made.final}
    typer.echo(json_text({**document, "interpolated": between, "comparison": compared}))


def _layers(text: str) -> range:
    first, _, end = text.partition("-")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise SettingsError(
            f"--layers takes two numbers, the first layer and the end (16-24), got {text!r}"
        )
    return range(int(first), int(end))


def _comparison(run: Path, made: "Interpolations", *, as_json: bool) -> Any:
    from dph.cli.display.comparison import comparison_json, comparison_text
    from dph.runs.directory import RunDirectory
    from dph.runs.evaluate.comparison import compare
    from dph.runs.evaluate.evaluated_runs import default_ks, read_runs, runs_on_sets

    labels = {
        str(RunDirectory(run).base.path): "base",
        **{str(each.directory): each.name for each in made.between},
        str(run): "run",
    }
    scores = read_runs([Path(path) for path in labels], ())
    rows = compare(scores, None, default_ks(scores), 0)
    on_sets = runs_on_sets(scores, retention_k=made.retention_k, problems=0, seed=0)
    return (comparison_json if as_json else comparison_text)(labels, rows, on_sets)
