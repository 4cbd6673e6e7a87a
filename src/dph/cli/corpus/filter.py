"""``dph corpus filter``: drop documents by the rules of a preset."""

from typing import Annotated

import typer

from dph.cli.corpus.options import (
    EngineOption,
    InputOption,
    OutOption,
    named_values,
    open_workers,
)
from dph.cli.options import JsonOption, WorkersOption, one_of


def _preset(name: str) -> str:
    from dph.corpus.rules.presets import PRESETS

    return one_of(name, PRESETS)


PresetOption = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME",
        parser=_preset,
        help="opencoder (as released), fixed (what is wrong there mended) or sql (fixed, and rules "
        "for SQL); `dph corpus rules` lists them.",
    ),
]


def filter_documents(
    source: InputOption,
    out: OutOption,
    preset: PresetOption = "fixed",
    thresholds: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="RULE[.KIND]=CONDITION",
            help="Drop by another condition, '> 0.5' or '< 2 or > 10'; '' leaves the rule out. May "
            "be repeated.",
        ),
    ] = None,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Drop documents by rules on their text, and write every rule's verdict and every signal.

    verdicts.parquet has a row for each rule that applies to a document (id, rule, value, threshold,
    fires, thinned, drops), signals.parquet each document's values.
    """
    from dph.cli.corpus.summary import print_corpus
    from dph.cli.display.progress import open_progress
    from dph.corpus.opening import open_input
    from dph.corpus.rules.spec import filter_spec
    from dph.corpus.stage_run import run_stage

    own = named_values(thresholds or (), "--threshold", empty=True)
    spec, number = filter_spec(preset, own), open_workers(engine, workers)
    corpus = open_input(source, out, workers=number)
    with open_progress().task("filter", len(corpus.shards), "shards") as advance:
        made = run_stage(spec, corpus, out, workers=number, on_progress=advance)
    print_corpus(made, as_json=as_json)
