"""Raw files to a training corpus: documents in shards, and stages that keep, change or drop them.

``documents`` and ``shards`` say what a corpus is, ``stage`` what a stage is and ``run_stage`` how
one is run over all shards; the other files and folders are the stages.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph_corpus.documents import DocType, Document
    from dph_corpus.shards import Corpus, open_corpus
    from dph_corpus.stage import DocumentOutcome, DocumentStage, Drop, StageSpec
    from dph_corpus.stage_run import run_stage

__all__ = [
    "Corpus",
    "DocType",
    "Document",
    "DocumentOutcome",
    "DocumentStage",
    "Drop",
    "StageSpec",
    "open_corpus",
    "run_stage",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Corpus": "dph_corpus.shards",
        "DocType": "dph_corpus.documents",
        "Document": "dph_corpus.documents",
        "DocumentStage": "dph_corpus.stage",
        "Drop": "dph_corpus.stage",
        "DocumentOutcome": "dph_corpus.stage",
        "StageSpec": "dph_corpus.stage",
        "open_corpus": "dph_corpus.shards",
        "run_stage": "dph_corpus.stage_run",
    },
)
