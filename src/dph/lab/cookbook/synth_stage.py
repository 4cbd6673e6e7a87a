"""The stage ``synth``: rows that a model writes and that are kept because they were executed."""

from dph.corpus import open_corpus
from dph.corpus.shards import digest
from dph.lab.ablation.run import ablate
from dph.lab.cookbook.stages import Digests, Kitchen
from collections.abc import Callable
from pathlib import Path
from typing import Any
from dph.corpus import Corpus, open_corpus
from dph.corpus.synth.run import synthesise
from dph.corpus.synth.seeds import Seed, database_seeds, document_seeds, signature_seeds
from dph.corpus.synth.writing import open_writer
from dph.lab.cookbook.stages import Digests, Kitchen
from dph.lab.cookbook.settings import SynthTable
from dph.lab.cookbook.writers import open_generator


# The stage ``ablate``: whether the cleaning of one of the corpora pays.

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


_JUDGING = ("second", "survivors", "timeout")


def synth_stage(kitchen: Kitchen) -> Digests:
    """Each ``[synth.<name>]``; the digests are of the texts that were kept."""
    made = {}
    for name, table in kitchen.cookbook.synth.items():
        made[name] = _synthesise(kitchen, name, table).manifest.content
    return made


def _synthesise(kitchen: Kitchen, name: str, table: SynthTable) -> Corpus:
    databases = Path(kitchen.place(table.databases)) if table.databases else None
    seeds = seeds_of(
        table,
        databases,
        lambda corpus: open_corpus(kitchen.corpus_stage("filter", corpus)),
    )
    generator = open_generator(
        function=table.generator,
        model=table.model,
        server=table.server,
        key_env=table.key_env,
        max_tokens=table.max_tokens,
        temperature=table.temperature,
    )
    judging: dict[str, Any] = {name: getattr(table, name) for name in _JUDGING}
    title = f"synth {name}"
    with (
        open_writer(
            table.kind,
            generator,
            databases=databases,
            workers=kitchen.workers,
            **judging,
        ) as write,
        kitchen.progress.task(title, len(seeds) * table.samples, "answers") as advance,
    ):
        return synthesise(
            table.kind,
            seeds,
            write,
            kitchen.corpus_stage("synth", name),
            samples=table.samples,
            seed=kitchen.cookbook.seed,
            identity={"generator": dict(generator.identity), **judging},
            on_progress=advance,
        )


def seeds_of(
    table: SynthTable, databases: Path | None, corpus: Callable[[str], Corpus]
) -> list[Seed]:
    """What rows are written about, at most ``table.most`` of them."""
    if table.corpus is not None:
        return document_seeds(corpus(table.corpus), most=table.most)
    if databases is not None:
        return database_seeds(databases)[: table.most]
    return signature_seeds(table.modules)[: table.most]
