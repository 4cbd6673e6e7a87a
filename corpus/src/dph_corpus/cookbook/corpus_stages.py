"""The stages from raw files to mixtures and rows: each corpus by itself, then all together."""

import glob
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dph.errors import DataError
from dph_corpus import Corpus, open_corpus, run_stage
from dph_corpus.cookbook.settings import HUB, WORLD
from dph_corpus.cookbook.stages import Digests, Pipeline
from dph_corpus.cookbook.writers import open_generator
from dph_corpus.decontaminate import decontaminate
from dph_corpus.dedup.run import dedup
from dph_corpus.ingest.run import ingest
from dph_corpus.ingest.sources import plan
from dph_corpus.instruct import instruct
from dph_corpus.mix import Mixture, mix
from dph_corpus.recall.run import recall
from dph_corpus.rules.stage import filter_spec
from dph_corpus.settings import SynthSettings, preset
from dph_corpus.synth.run import synthesise
from dph_corpus.synth.seeds import seeds_of
from dph_corpus.synth.writing import open_writer
from dph_corpus.transform.cleaning import transform_spec


def synth_stage(pipeline: Pipeline) -> Digests:
    """Each ``[synth.<name>]``; the digests are of the texts that were kept."""
    made = {}
    for name, table in pipeline.cookbook.synth.items():
        settings = SynthSettings(
            **table.model_dump(exclude={"corpus", "modules", "databases"}),
            input=pipeline.corpus_stage("filter", table.corpus) if table.corpus else None,
            modules=",".join(table.modules),
            databases=Path(pipeline.place(table.databases)) if table.databases else None,
            seed=pipeline.cookbook.seed,
        )
        seeds = seeds_of(settings, open_corpus)
        generator = open_generator(settings, pipeline.cookbook.modules)
        total = len(seeds) * settings.samples
        with (
            open_writer(settings, generator, workers=pipeline.workers) as write,
            pipeline.progress.task(f"synth {name}", total, "answers") as advance,
        ):
            made[name] = synthesise(
                settings,
                seeds,
                write,
                pipeline.corpus_stage("synth", name),
                generator=generator.identity,
                on_progress=advance,
            ).manifest.content
    return made


def ingest_stage(pipeline: Pipeline) -> Digests:
    """Files to documents."""
    made = {}
    for name, settings in pipeline.cookbook.corpora.items():
        out = pipeline.corpus_stage("ingest", name)
        units = plan([*_inputs(pipeline, settings.inputs)], about=settings.about, out=out)
        with pipeline.progress.task(f"ingest {name}", len(units), "parts of inputs") as advance:
            corpus = ingest(units, out, workers=pipeline.workers, on_progress=advance)
        made[name] = corpus.manifest.content
    return made


def recall_stage(pipeline: Pipeline) -> Digests:
    """Keep the pages that are like another corpus."""
    made = {}
    for name, settings in pipeline.cookbook.corpora.items():
        if (table := settings.recall) is None:
            continue
        pages = pipeline.before("recall", name)
        total = len(pages.shards) * (table.rounds + 1)
        with pipeline.progress.task(f"recall {name}", total, "shards") as advance:
            made[name] = recall(
                pages,
                open_corpus(pipeline.corpus_stage("ingest", table.seeds)),
                pipeline.corpus_stage("recall", name),
                settings=table.settings(pipeline.cookbook.seed),
                patterns=table.patterns,
                labelled=table.labelled,
                workers=pipeline.workers,
                on_progress=advance,
            ).manifest.content
    return made


def dedup_stage(pipeline: Pipeline) -> Digests:
    """Remove copies."""

    def run(name: str) -> RunOne:
        return partial(dedup, nearness=preset(pipeline.cookbook.corpora[name].dedup, None))

    return _each(pipeline, "dedup", run)


def transform_stage(pipeline: Pipeline) -> Digests:
    """Remove notices and secrets."""
    return _each(pipeline, "transform", lambda _: partial(run_stage, transform_spec()))


def filter_stage(pipeline: Pipeline) -> Digests:
    """Remove documents of low quality."""

    def run(name: str) -> RunOne:
        settings = pipeline.cookbook.corpora[name]
        return partial(run_stage, filter_spec(settings.filter, settings.thresholds))

    return _each(pipeline, "filter", run)


def decontaminate_stage(pipeline: Pipeline) -> Digests:
    """Remove documents that hold parts of a test set."""
    return _each(pipeline, "decontaminate", lambda _: partial(decontaminate, sets=pipeline.tests()))


def mix_stage(pipeline: Pipeline) -> Digests:
    """Mix the corpora by their shares."""
    made = {}
    for name, settings in pipeline.cookbook.mixtures.items():
        parts = {part: pipeline.cleaned(part) for part in settings.shares}
        mixture = Mixture(budget=settings.budget, shares=settings.shares, caps=settings.caps)
        with pipeline.progress.task(f"mix {name}", len(parts), "parts") as advance:
            out = pipeline.directory / "mixtures" / name
            made[name] = mix(parts, out, mixture=mixture, workers=pipeline.workers).manifest.content
            advance(len(parts), "")
    return made


def instruct_stage(pipeline: Pipeline) -> Digests:
    """The rows of every stage of fine-tuning."""
    made = {}
    for name, settings in pipeline.cookbook.instruct.items():
        parts = {part: Path(pipeline.place(text)) for part, text in settings.parts.items()}
        with pipeline.progress.task(f"instruct {name}", len(parts), "parts") as advance:
            made[name] = instruct(
                parts,
                pipeline.directory / "instruct" / name,
                quotas=settings.rows,
                sets=pipeline.tests(),
                checks=settings.checks,
                on_progress=advance,
            ).manifest["sha256"]
    return made


RunOne = Callable[..., Corpus]
"""A stage of one corpus, with its settings."""


def _each(pipeline: Pipeline, stage: str, settled: Callable[[str], RunOne]) -> Digests:
    """Run a stage of every corpus that goes through it."""
    made = {}
    for name in (*pipeline.cookbook.corpora, *pipeline.cookbook.synth):
        if stage not in pipeline.corpus_stages(name):
            continue
        source, out = pipeline.before(stage, name), pipeline.corpus_stage(stage, name)
        with pipeline.progress.task(f"{stage} {name}", len(source.shards), "shards") as advance:
            corpus = settled(name)(source, out, workers=pipeline.workers, on_progress=advance)
        made[name] = corpus.manifest.content
    return made


def _inputs(pipeline: Pipeline, texts: tuple[str, ...]) -> list[str]:
    """The inputs with patterns resolved."""
    found: list[str] = []
    for text in texts:
        if text.startswith(WORLD) or HUB in text or not glob.has_magic(text):
            found.append(pipeline.place(text))
            continue
        matches = sorted(glob.glob(text))  # noqa: PTH207 - the pattern is a whole path
        if not matches:
            raise DataError(f"no file matches {text}")
        found += matches
    return found
