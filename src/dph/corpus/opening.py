"""What a stage reads: the directory of an earlier stage, or a file of documents."""

from pathlib import Path

from dph.corpus.ingest.run import ingest
from dph.corpus.ingest.sources import plan
from dph.corpus.shards import Corpus, is_corpus, open_corpus

_OWN_INPUT = ".input"


def open_input(path: Path, out: Path, *, workers: int = 1) -> Corpus:
    """The documents at ``path``: a corpus as it is, anything else ingested below ``out`` first.

    Raises:
        DataError: there is nothing to read.
    """
    if is_corpus(path):
        return open_corpus(path)
    return ingest(plan([str(path)]), out / _OWN_INPUT, workers=workers)
