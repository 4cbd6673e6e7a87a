"""``dph corpus ...``: from raw files to a training corpus, a verb for each stage."""

import typer

from dph.cli.corpus.dedup import decontaminate, dedup, mix
from dph.cli.corpus.filter import explain, filter_documents, rules, show
from dph.cli.corpus.ingest import ingest, transform
from dph.cli.corpus.recall import recall
from dph.cli.corpus.run import ablate, run
from dph.cli.corpus.synth import instruct, synth

corpus_app = typer.Typer(
    name="corpus",
    help="Turn raw files into a training corpus. Needs dph-rl[corpus].",
    no_args_is_help=True,
    rich_markup_mode=None,
)
VERBS = (
    *(ingest, dedup, transform, recall, synth, decontaminate, mix, instruct, ablate, run),
    *(show, explain, rules),
)
for verb in VERBS:
    corpus_app.command(verb.__name__)(verb)
corpus_app.command("filter")(filter_documents)
