"""``dph corpus``: from raw files to a training corpus, one file a verb."""

from dph.cli.options import add_verbs, group
from dph_corpus.cli.dedup import decontaminate, dedup, mix, tokenize
from dph_corpus.cli.filter import explain, filter_documents, rules, show
from dph_corpus.cli.ingest import ingest, licences, transform
from dph_corpus.cli.recall import recall
from dph_corpus.cli.run import ablate, run, work
from dph_corpus.cli.synth import instruct, synth
from dph_corpus.cli.tune import tune

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
