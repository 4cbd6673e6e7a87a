"""``dph export``: a run's result as a plain model directory."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, trained.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The model's directory, not there yet.")
    ],
    weights: Annotated[
        str, typer.Option("--weights", help="Precision to save: float32 or bfloat16.")
    ] = "float32",
    as_json: JsonOption = False,
) -> None:
    """Write the checkpoint that a run ended with as a plain model directory; an adapter is merged.

    It is what transformers, vLLM and every other program load, and answers as the run does.
    """
    from typing import get_args

    from dph.cli.display.output import json_text
    from dph.cli.display.quiet import quiet_libraries
    from dph.errors import SettingsError
    from dph.recipe.choices import Precision
    from dph.runs.ends import ends_of, require_free

    if weights not in get_args(Precision):
        raise SettingsError(f'--weights is "float32" or "bfloat16", got {weights!r}')
    require_free(out)
    ends_of(run)
    quiet_libraries()
    from dph.runs.export import export as export_run

    path = export_run(run, out, weights="bfloat16" if weights == "bfloat16" else "float32")
    typer.echo(json_text({"model": str(path), "weights": weights}) if as_json else f"model: {path}")
