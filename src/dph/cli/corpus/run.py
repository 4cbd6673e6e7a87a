"""``dph corpus run``: a whole cookbook, from raw files to Pass@k."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.corpus.options import EngineOption, InputOption, OutOption, open_workers
from dph.cli.options import JsonOption, SetOption, WorkersOption

# ``dph corpus ablate``: whether cleaning a corpus pays, by models of it at equal tokens.

HeldoutOption = Annotated[
    Path,
    typer.Option(
        "--heldout",
        metavar="PATH",
        help="Code of other repositories, same forms as --input; files in both are left out of it.",
    ),
]
ModelsOption = Annotated[
    str, typer.Option("--models", metavar="A,B", help="Models to use: ngram, transformer.")
]
TokensOption = Annotated[
    int, typer.Option("--tokens", metavar="N", help="Tokens that each model is trained on.")
]
SeedsOption = Annotated[
    int,
    typer.Option(
        "--seeds", metavar="N", help="Number of seeds; each draws sequences and initial weights."
    ),
]
MegabytesOption = Annotated[
    float,
    typer.Option(
        "--megabytes", metavar="N", help="Maximum megabytes of the input; a sample is taken."
    ),
]
CopiesOption = Annotated[
    float,
    typer.Option(
        "--copies",
        metavar="S",
        help="Share of planted copies among the raw files; OpenCoder found about 0.75.",
    ),
]
LanguageOption = Annotated[
    str, typer.Option("--language", metavar="NAME", help="Use only documents of this language.")
]
DedupOption = Annotated[
    str, typer.Option("--dedup", metavar="PRESET", help="Preset of dph corpus dedup.")
]
FilterOption = Annotated[
    str, typer.Option("--filter", metavar="PRESET", help="Preset of dph corpus filter.")
]


def ablate(
    source: InputOption,
    heldout: HeldoutOption,
    out: OutOption,
    models: ModelsOption = "ngram,transformer",
    tokens: TokensOption = 120_000,
    seeds: SeedsOption = 3,
    megabytes: MegabytesOption = 1.0,
    copies: CopiesOption = 0.0,
    language: LanguageOption = "",
    dedup: DedupOption = "opencoder",
    filter_preset: FilterOption = "opencoder",
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train on the input raw, deduplicated, filtered and both, and measure each on held-out code.

    Every arm gives the same models the same number of tokens, with the same seeds. The table shows
    bits a byte of held-out code and the paired difference to raw; below 0 cleaning has helped.
    """
    from dph.cli.display.output import json_text, quiet_libraries
    from dph.cli.display.progress import open_progress
    from dph.cli.grade_run import default_workers
    from dph.corpus.opening import open_input
    from dph.lab.ablation.settings import AblationSettings
    from dph.recipe.section import checked

    chosen = {
        "models": [name.strip() for name in models.split(",")],
        "tokens": tokens,
        "seeds": seeds,
        "megabytes": megabytes,
        "copies": copies,
        "language": language,
        "dedup": dedup,
        "filter": filter_preset,
    }
    settings = checked(AblationSettings, chosen, beside=Path(), place="the options")
    count = workers or default_workers()
    corpus = open_input(source, out, workers=count)
    code = open_input(heldout, out / ".heldout", workers=count)
    quiet_libraries()
    from dph.lab.ablation.run import TABLE
    from dph.lab.ablation.run import ablate as run_ablation

    found = run_ablation(corpus, code, out, settings, open_progress(), workers=count)
    typer.echo(json_text(dict(found)) if as_json else (out / TABLE).read_text(encoding="utf-8"))


def run(
    cookbook: Annotated[Path, typer.Argument(metavar="COOKBOOK", help="cookbook.toml.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Output directory [default: the recipe's name]."),
    ] = None,
    overrides: SetOption = None,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Run all stages that the file has tables for, in order; continue where a kill interrupted it.

    Stages that are finished from the same inputs and settings are skipped. DIR/report.md lists the
    documents that came in, were kept and were dropped, and all measurements; DIR/digests.json
    identifies the result of each stage.
    """
    from dph.cli.display.output import json_text, quiet_libraries
    from dph.cli.display.progress import open_progress
    from dph.cli.grade_run import default_workers
    from dph.cli.request import require_writable
    from dph.lab.cookbook.settings import load_cookbook

    settings = load_cookbook(cookbook, overrides or ())
    directory = out or Path(settings.name)
    require_writable(directory)
    quiet_libraries()
    from dph.lab.cookbook.run import run_cookbook

    made = run_cookbook(
        settings,
        directory,
        open_progress(),
        workers=workers or default_workers(),
        shards_by=open_workers(engine, workers),
    )
    if as_json:
        typer.echo(json_text(dict(made)))
        return
    report = directory / "report.md"
    typer.echo(f"{report.read_text(encoding='utf-8')}\nreport: {report}")
