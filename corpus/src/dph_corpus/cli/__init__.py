"""``dph-corpus``: from raw files to a training corpus, a base model and Pass@k."""

import sys
from collections.abc import Sequence

from dph.cli.options import add_verbs, exit_code, program, run_app
from dph.errors import SettingsError
from dph_corpus.cli.dedup import decontaminate, dedup, mix, tokenize
from dph_corpus.cli.filter import explain, filter_documents, rules, show
from dph_corpus.cli.ingest import ingest, licences, transform
from dph_corpus.cli.recall import recall
from dph_corpus.cli.recipe import base, recipe_app, sft
from dph_corpus.cli.run import run, work
from dph_corpus.cli.synth import instruct, synth
from dph_corpus.cli.tune import tune
from dph_corpus.settings import refuse_removed

app = program(
    "dph-corpus",
    "Turn raw files into a training corpus, and a corpus into a model. Exit codes as of dph.",
)
_STAGES = (
    ingest,
    licences,
    dedup,
    transform,
    recall,
    synth,
    decontaminate,
    mix,
    tokenize,
    instruct,
)
add_verbs(app, {verb.__name__: verb for verb in _STAGES}, section="Stages")
add_verbs(app, {"filter": filter_documents}, section="Stages")
add_verbs(app, {"run": run, "work": work, "base": base, "sft": sft}, section="Run")
add_verbs(app, {"show": show, "explain": explain, "rules": rules, "tune": tune}, section="Look")
app.add_typer(recipe_app, rich_help_panel="Look")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; ``arguments`` default to the process's."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        refuse_removed(word for word in words if word.startswith("--"))
    except SettingsError as error:
        return exit_code(error, "dph-corpus")
    return run_app(app, "dph-corpus", words)
