"""``dph corpus run``: a whole cookbook, from raw files to Pass@k."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption, SetOption, WorkersOption
from dph_corpus.cli.options import (
    EngineOption,
    InputOption,
    OutOption,
    open_workers,
    place_of,
    settings_options,
)
from dph_corpus.settings import option

# ``dph corpus ablate``: whether cleaning a corpus pays, by models of it at equal tokens.

HeldoutOption = Annotated[
    Path,
    typer.Option(
        "--heldout",
        metavar="PATH",
        help="Code of other repositories, same forms as --input; files in both are left out of it.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class AblationOptions:
    """The settings of an ablation that are options (``dph_corpus.ablation.settings`` has them all)."""

    arms: str = option(
        "cleaning", "Arms to compare: cleaning, deduplication, filtering, annealing.", "NAME"
    )
    models: str = option("ngram,transformer", "Models to use: ngram, transformer.", "A,B")
    tokens: int = option(120_000, "Tokens that each model is trained on.", "N")
    seeds: int = option(3, "Number of seeds; each draws sequences and initial weights.", "N")
    development: int = option(0, "Number of other seeds to run first, for the power.", "N")
    margin: float = option(0.01, "Difference in bits per byte that counts as none.", "BITS")
    heldout_languages: str = option(
        "", "Held-out languages to measure separately; without any, all code together.", "A,B"
    )
    width: int = option(96, "Width of the transformer.", "N")
    layers: int = option(2, "Layers of the transformer.", "N")
    sequences_per_step: int = option(8, "Sequences of a step of the transformer.", "N")
    megabytes: float = option(1.0, "Maximum megabytes of the input; a sample is taken.", "N")
    copies: float = option(
        0.0,
        "Share of planted copies among the raw files; OpenCoder found about 0.75.",
        "S",
    )
    language: str = option("", "Use only documents of this language.", "NAME")
    dedup: str = option("opencoder", "Preset of dph corpus dedup.", "PRESET")
    filter: str = option("opencoder", "Preset of dph corpus filter, or a file.", "NAME|FILE")


@settings_options(AblationOptions)
def ablate(
    settings: AblationOptions,
    source: InputOption,
    heldout: HeldoutOption,
    out: OutOption,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what cleaning is worth on held-out code.

    By default there are four arms: the input raw, deduplicated, filtered and both. In every arm the
    same models learn the same number of tokens, with the same seeds. The table has bits per byte of
    held-out code and the paired difference from the first arm; below 0, cleaning has helped.
    """
    from dph.cli.display.output import json_text, open_progress, quiet_libraries
    from dph.cli.grade import default_workers
    from dph.recipe.section import checked
    from dph_corpus.ablation.settings import AblationSettings
    from dph_corpus.ingest.run import open_input

    lists = {name: _names(getattr(settings, name)) for name in ("models", "heldout_languages")}
    chosen = asdict(settings) | lists
    told = checked(AblationSettings, chosen, beside=Path(), place="the options")
    count = workers or default_workers()
    corpus = open_input(source, out, workers=count)
    code = open_input(heldout, out / ".heldout", workers=count)
    quiet_libraries()
    from dph_corpus.ablation.run import TABLE
    from dph_corpus.ablation.run import ablate as run_ablation

    found = run_ablation(corpus, code, out, told, open_progress(), workers=count)
    typer.echo(json_text(dict(found)) if as_json else (out / TABLE).read_text(encoding="utf-8"))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


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
    """Run all stages of a file in order.

    After a kill, the same command continues: stages that finished with the same inputs and settings
    are skipped. DIR/report.md shows what came in, stayed and was dropped, and all measurements;
    DIR/digests.json has a digest of each stage's output.
    """
    from dph.cli.display.output import json_text, open_progress, quiet_libraries
    from dph.cli.grade import default_workers
    from dph.cli.request import require_writable
    from dph_corpus.cookbook.settings import load_cookbook

    settings = load_cookbook(cookbook, overrides or ())
    directory = out or Path(settings.name)
    require_writable(directory)
    quiet_libraries()
    from dph_corpus.cookbook.run import run_cookbook

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


# ``dph corpus work``: help with a stage that another machine runs.


def work(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="URL", parser=place_of, help="The --out of the stage; of several stages, each."
        ),
    ],
    workers: WorkersOption = None,
    idle: Annotated[
        float,
        typer.Option("--idle", min=0, metavar="SECONDS", help="End after this long without work."),
    ] = 600.0,
) -> None:
    """Process shards of a stage that runs on another machine.

    Start it before or after the stage, on as many machines as you like; they need to see only the
    store. If a machine is lost, only the shards that it was processing are lost. This command runs
    functions that the store names: give write access only to people whom you would let run programs
    here.
    """
    from dph.cli.display.output import open_progress
    from dph.cli.grade import default_workers
    from dph_corpus.running import help_with

    say = open_progress().say
    count = help_with(
        directories,
        workers=workers or default_workers(),
        idle=idle,
        on_progress=lambda _amount, name: say(f"done: {name}"),
    )
    typer.echo(f"{count} shards done; nothing more for {idle:g} s")
