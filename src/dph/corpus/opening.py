"""Input of a stage: the directory of an earlier stage, or a file of documents."""

from pathlib import Path

from dph.corpus.ingest.run import ingest
from dph.corpus.ingest.sources import plan
from dph.corpus.shards import Corpus, is_corpus, open_corpus
from dph.corpus.steps import Workers

_OWN_INPUT, _LABEL = ".input", "input"


def open_input(path: Path, out: Path, *, workers: Workers = 1) -> Corpus:
    """The documents at ``path``: a corpus as it is, anything else ingested below ``out`` first.

    The source of what is ingested is called ``input``, so that documents do not depend on the names
    and the number of the files they come in.

    Raises:
        DataError: there is nothing to read.
    """
    if is_corpus(path):
        return open_corpus(path)
    return ingest(plan([f"{_LABEL}={path}"], out=out), out / _OWN_INPUT, workers=workers)
