"""``dph corpus mix``: so many bytes of each of several corpora."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.corpus.options import EngineOption, OutOption, named_values, open_workers
from dph.cli.options import JsonOption, WorkersOption

_TOLD = 0.01
"""A part that is short of more than this share of what it was to have is told of in a line."""


def mix(
    out: OutOption,
    parts: Annotated[
        list[str],
        typer.Option("--part", metavar="NAME=DIR", help="A corpus; may be repeated."),
    ],
    budget: Annotated[
        int, typer.Option("--budget", min=1, metavar="BYTES", help="Bytes of text in all.")
    ],
    shares: Annotated[
        list[str] | None,
        typer.Option(
            "--share",
            metavar="NAME=WEIGHT",
            help="How much of each part; only ratios count [default: OpenCoder's annealing "
            "mixture, code 83.94, algorithmic 12.44, synthetic 2.71, textbook 0.91].",
        ),
    ] = None,
    caps: Annotated[
        list[str] | None,
        typer.Option("--cap", metavar="LANGUAGE=BYTES", help="The most of a language."),
    ] = None,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Take of each corpus its share of a budget, and write one corpus.

    What is taken of a part is a uniform sample, without the documents that do not fit what is left
    of its share. A part that is too small leaves a shortfall, which is told and not filled up.
    """
    from dph.cli.corpus.summary import print_corpus
    from dph.cli.display.progress import open_progress
    from dph.corpus.mix.run import mix as run_mix
    from dph.corpus.mix.shares import ANNEALING, Mixture
    from dph.corpus.shards import open_corpus

    mixture = Mixture(
        budget=budget,
        shares=_numbers(shares, "--share") if shares else ANNEALING,
        caps={name: int(value) for name, value in _numbers(caps or [], "--cap").items()},
    )
    corpora = {
        name: open_corpus(Path(path)) for name, path in named_values(parts, "--part").items()
    }
    with open_progress().task("mix", len(corpora), "parts") as advance:
        mixed = run_mix(corpora, out, mixture=mixture, workers=open_workers(engine, workers))
        advance(len(corpora), "")
    print_corpus(mixed, as_json=as_json)
    for name, quota in mixture.quotas().items():
        short = mixed.manifest.flow.counts[f"short {name}"]
        if not as_json and short > _TOLD * quota:
            typer.echo(f"short: {name} has {(quota - short) / 1e6:.2f} of {quota / 1e6:.2f} MB")


def _numbers(texts: list[str], flag: str) -> dict[str, float]:
    from dph.errors import SettingsError

    found: dict[str, float] = {}
    for name, value in named_values(texts, flag).items():
        try:
            found[name] = float(value)
        except ValueError as error:
            raise SettingsError(f"{flag} {name} must be a number, got {value!r}") from error
    return found
