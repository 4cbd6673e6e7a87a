"""The stage ``ablate``: whether the cleaning of one of the corpora pays."""

from dph.ablation.run import ablate
from dph.cookbook.kitchen import Digests, Kitchen
from dph.corpus import open_corpus
from dph.corpus.shards import digest


def ablation_stage(kitchen: Kitchen) -> Digests:
    """``[ablation]``: raw, dedup, filter and both of a corpus as it came in."""
    if (table := kitchen.cookbook.ablation) is None:
        return {}
    found = ablate(
        open_corpus(kitchen.corpus_stage("ingest", table.corpus)),
        open_corpus(kitchen.corpus_stage("ingest", table.heldout)),
        kitchen.directory / "ablation",
        table,
        kitchen.progress,
        workers=kitchen.shards_by,
    )
    return {"ablation": digest(dict(found))}
