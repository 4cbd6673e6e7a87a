"""The four arms of an ablation: the same raw text, as it is, deduplicated, filtered, and both."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from dph._base.randomness import generator
from dph.corpus import Corpus, Document, Outcome, run_stage
from dph.corpus.dedup.presets import preset
from dph.corpus.dedup.run import dedup
from dph.corpus.documents import position
from dph.corpus.rules.spec import filter_spec
from dph.corpus.shard_work import write_shard
from dph.corpus.shards import shard_name
from dph.corpus.stage_run import finish_stage, made_once
from dph.corpus.tasks import Workers
from dph.errors import DataError
from dph.lab.ablation.settings import AblationSettings
from dph.runs.progress import ProgressDisplay

VERSION = 1
"""Counts up when the same corpus and settings give other pools."""
RAW, DEDUP, FILTER, BOTH = ARMS = ("raw", "dedup", "filter", "both")


def make_pools(
    source: Corpus,
    out: Path,
    settings: AblationSettings,
    progress: ProgressDisplay,
    *,
    workers: Workers,
) -> Mapping[str, Corpus]:
    """The corpora of the arms, in ``out``; what is finished is kept.

    ``both`` is deduplicated first, then filtered, in OpenCoder's order.

    Raises:
        DataError: no document is left of an arm.
        StageError: a stage failed.
    """
    nearness, spec = preset(settings.dedup, None), filter_spec(settings.filter)
    with progress.task("arms", len(ARMS), "arms") as advance:
        pools = {RAW: _raw(source, out / RAW, settings)}
        advance(1, RAW)
        pools[DEDUP] = dedup(pools[RAW], out / DEDUP, nearness=nearness, workers=workers)
        advance(1, DEDUP)
        for arm, before in ((FILTER, RAW), (BOTH, DEDUP)):
            pools[arm] = run_stage(spec, pools[before], out / arm, workers=workers)
            advance(1, arm)
    if empty := [arm for arm in ARMS if not pools[arm].manifest.documents]:
        raise DataError(f"no document is left of {empty[0]} in {pools[empty[0]].directory}")
    return pools


def _raw(source: Corpus, out: Path, settings: AblationSettings) -> Corpus:
    chosen = {name: getattr(settings, name) for name in ("megabytes", "copies", "language", "seed")}
    step = {"stage": "pool", "version": VERSION, "settings": chosen}
    history = [*source.manifest.history, step | {"input": source.manifest.content}]

    def make() -> Corpus:
        documents = sorted(_with_copies(source, settings), key=lambda d: (position(d.id), d.id))
        if not documents:
            named = settings.language or "any language"
            raise DataError(f"{source.directory} has no document of {named}")
        outcomes = ((document, Outcome(document)) for document in documents)
        summary = write_shard(outcomes, "pool", out, shard_name(0, 1))
        return finish_stage(out, "pool", [shard_name(0, 1)], [summary], history=history)

    return made_once([source], out, history=history, shards=1, make=make)


def _with_copies(source: Corpus, settings: AblationSettings) -> Iterator[Document]:
    """The first documents of the corpus, each with as many copies as a geometric law gives it.

    A share c of copies is the mean 1 / (1 - c) of files with the same text; the law is declared,
    not measured: what is copied most on the web follows another.
    """
    size = 0.0
    for document in source.documents():
        if settings.language and document.language != settings.language:
            continue
        size += document.bytes
        if size > settings.megabytes * 1e6:
            return
        yield document
        draw = generator(settings.seed, "copies", document.id)
        for number in range(1, int(draw.geometric(1 - settings.copies))):
            yield replace(document, id=f"copy {number} of {document.id}")
