"""``dph corpus``: from raw files to a training corpus, one file a verb."""

from dph.cli.corpus.dedup import decontaminate, dedup, mix, tokenize
from dph.cli.corpus.filter import explain, filter_documents, rules, show
from dph.cli.corpus.ingest import ingest, licences, transform
from dph.cli.corpus.recall import recall
from dph.cli.corpus.run import ablate, run, work
from dph.cli.corpus.synth import instruct, synth
from dph.cli.corpus.tune import tune
from dph.cli.options import add_verbs, group

corpus_app = group("corpus", "Turn raw files into a training corpus. Needs dph-rl[corpus].")
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
add_verbs(corpus_app, {verb.__name__: verb for verb in _STAGES}, section="Stages")
add_verbs(corpus_app, {"filter": filter_documents}, section="Stages")
add_verbs(corpus_app, {"run": run, "work": work, "ablate": ablate}, section="Run")
add_verbs(
    corpus_app, {"show": show, "explain": explain, "rules": rules, "tune": tune}, section="Look"
)
