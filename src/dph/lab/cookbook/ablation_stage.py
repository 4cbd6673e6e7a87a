"""The stage ``ablate``: whether the cleaning of one of the corpora pays."""

from dph.corpus import open_corpus
from dph.corpus.shards import digest
from dph.lab.ablation.run import ablate
from dph.lab.cookbook.kitchen import Digests, Kitchen


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
