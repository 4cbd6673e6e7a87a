"""``dph quickstart``: see the collapse, and what prevents it, in minutes on a CPU."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dph.cli.options import JsonOption, option


def quickstart(
    methods: Annotated[
        str | None,
        option(
            "--methods A,B,...",
            "Recipes to compare, by their names in OUT/recipes, separated by commas.",
            show_default="grpo,dph_f,rkl",
        ),
    ] = None,
    seed: Annotated[int, option("--seed N", "Seed of training.", min=0)] = 0,
    task: Annotated[str, option("--task NAME", "Task to learn: countdown or sql.")] = "countdown",
    out: Annotated[Path, option("--out DIR", "Output directory.")] = Path("quickstart"),
    jobs: Annotated[
        int | None,
        option("--jobs N", "Number of methods at a time.", min=1, show_default="the cores"),
    ] = None,
    tiny: Annotated[
        bool, option("--tiny", "Only check that everything runs; the numbers are meaningless.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare methods on a small task that comes with the package.

    OUT has everything that further runs need: `dph run OUT/recipes/dph_f.toml --out RUN`.
    """
    from dph.cli.display.output import json_text, open_progress, quiet_libraries
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
    picture, page = _picture(summary, out), _report(summary, out)
    if as_json:
        typer.echo(json_text(summary))
    else:
        typer.echo(_text(summary, out, picture=picture, page=page, tiny=tiny))


def _picture(summary: dict[str, Any], out: Path) -> Path:
    """Draw ``quickstart.png`` and return its path."""
    from dph.results.charts.picture import quickstart_picture
    from dph.runs.directory import RunDirectory, read_metrics

    metrics = {name: read_metrics(RunDirectory(out / name).metrics) for name in summary["methods"]}
    path = out / "quickstart.png"
    quickstart_picture(summary, metrics, headline=summary["words"]).save(path)
    return path


def _report(summary: dict[str, Any], out: Path) -> Path:
    """Write ``report.html`` and return its path."""
    from dph.results.report.page import write_report
    from dph.results.report.report_data import read_report

    data = read_report([out / name for name in summary["methods"]], seed=summary["seed"])
    lead = summary["words"]
    return write_report(data, out / "report.html", title="dph quickstart", lead=lead).path


def _text(summary: dict[str, Any], out: Path, *, picture: Path, page: Path, tiny: bool) -> str:
    from dph.cli.display.output import table_text
    from dph.results.charts.tables import comparison_table

    method = next(iter(summary["methods"]))
    lines = [
        summary["words"],
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
