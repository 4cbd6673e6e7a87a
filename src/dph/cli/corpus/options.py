"""The options that several verbs of ``dph corpus`` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dph.corpus.tasks import Workers

InputOption = Annotated[
    Path,
    typer.Option(
        "--input",
        metavar="PATH",
        help="Directory that a stage made, or a file of documents: .jsonl (.gz, .zst), .parquet.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Directory to write; go on there after a kill."),
]
ShardsOption = Annotated[
    int | None,
    typer.Option("--shards", min=1, metavar="N", help="Shards [default: one per 128 MB]."),
]

EngineOption = Annotated[
    Literal["cores", "ray"],
    typer.Option(
        "--engine",
        help="Where shards are done: processes here, or --workers tasks of a Ray cluster [default: "
        "its CPUs], which has to see the same directories.",
    ),
]


def open_workers(engine: str, workers: int | None) -> "Workers":
    """Who does the shards; a Ray cluster is that of RAY_ADDRESS, or one made here.

    Raises:
        SettingsError: Ray is not installed.
    """
    if engine == "ray":
        from dph._processes.jobs.ray_jobs import RayJobs, connected_ray
        from dph.corpus.task_jobs import do_task

        return RayJobs(workers, connected_ray(), do_task)
    from dph.cli.grade_run import default_workers

    return workers or default_workers()


def named_values(texts: "Sequence[str]", flag: str, *, empty: bool = False) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, once for a name; ``empty`` ones too.

    Raises:
        SettingsError: one has another form, or its name is there already.
    """
    from dph.errors import SettingsError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not (value or empty) or name in found:
            raise SettingsError(f"{flag} is given once for a name, as NAME=VALUE; got {text!r}")
        found[name] = value
    return found
