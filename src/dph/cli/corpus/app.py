"""``dph corpus ...``: from raw files to a training corpus, a verb for each stage."""

import typer

from dph.cli.corpus.dedup import dedup
from dph.cli.corpus.ingest import ingest
from dph.cli.corpus.show import show

corpus_app = typer.Typer(
    name="corpus",
    help="Turn raw files into a training corpus. Needs dph-rl[corpus].",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for verb in (ingest, dedup, show):
    corpus_app.command(verb.__name__)(verb)
