"""The stages from raw files to mixtures and rows: each corpus by itself, then all together."""

import glob
from collections.abc import Callable
from pathlib import Path

from dph.errors import DataError
from dph_corpus import Corpus, open_corpus, run_stage
from dph_corpus.ablation.run import ablate
from dph_corpus.cookbook.settings import HUB, WORLD, SynthTable
from dph_corpus.cookbook.stages import Digests, Kitchen
from dph_corpus.cookbook.writers import open_generator
from dph_corpus.decontaminate import decontaminate
from dph_corpus.dedup.run import dedup
from dph_corpus.ingest.run import ingest
from dph_corpus.ingest.sources import plan
from dph_corpus.instruct import instruct
from dph_corpus.mix import Mixture, mix
from dph_corpus.recall.run import recall
from dph_corpus.rules.spec import filter_spec
from dph_corpus.settings import SynthSettings, preset
from dph_corpus.shards import digest
from dph_corpus.stage_run import OnProgress
from dph_corpus.synth.run import synthesise
from dph_corpus.synth.seeds import seeds_of
from dph_corpus.synth.writing import open_writer
from dph_corpus.transform.cleaning import transform_spec

# The stage ``synth``: rows that a model writes and that are kept because they were executed.

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


def synth_stage(kitchen: Kitchen) -> Digests:
    """Each ``[synth.<name>]``; the digests are of the texts that were kept."""
    made = {}
    for name, table in kitchen.cookbook.synth.items():
        made[name] = _synthesise(kitchen, name, table).manifest.content
    return made


def _synthesise(kitchen: Kitchen, name: str, table: SynthTable) -> Corpus:
    settings = SynthSettings(
        **table.model_dump(exclude={"corpus", "modules", "databases"}),
        input=kitchen.corpus_stage("filter", table.corpus) if table.corpus else None,
        modules=",".join(table.modules),
        databases=Path(kitchen.place(table.databases)) if table.databases else None,
        seed=kitchen.cookbook.seed,
    )
    seeds, generator = seeds_of(settings, open_corpus), open_generator(settings)
    title, total = f"synth {name}", len(seeds) * settings.samples
    with (
        open_writer(settings, generator, workers=kitchen.workers) as write,
        kitchen.progress.task(title, total, "answers") as advance,
    ):
        return synthesise(
            settings,
            seeds,
            write,
            kitchen.corpus_stage("synth", name),
            generator=generator.identity,
            on_progress=advance,
        )


def ingest_stage(kitchen: Kitchen) -> Digests:
    """Files to documents."""
    made = {}
    for name, settings in kitchen.cookbook.corpora.items():
        out = kitchen.corpus_stage("ingest", name)
        units = plan([*_inputs(kitchen, settings.inputs)], about=settings.about, out=out)
        with kitchen.progress.task(f"ingest {name}", len(units), "parts of inputs") as advance:
            corpus = ingest(units, out, workers=kitchen.shards_by, on_progress=advance)
        made[name] = corpus.manifest.content
    return made


def recall_stage(kitchen: Kitchen) -> Digests:
    """Of pages of the web those that are like another corpus."""
    made = {}
    for name, settings in kitchen.cookbook.corpora.items():
        if (table := settings.recall) is None:
            continue
        pages = kitchen.before("recall", name)
        total = len(pages.shards) * (table.rounds + 1)
        with kitchen.progress.task(f"recall {name}", total, "shards") as advance:
            made[name] = recall(
                pages,
                open_corpus(kitchen.corpus_stage("ingest", table.seeds)),
                kitchen.corpus_stage("recall", name),
                settings=table.settings(kitchen.cookbook.seed),
                patterns=table.patterns,
                labelled=table.labelled,
                workers=kitchen.shards_by,
                on_progress=advance,
            ).manifest.content
    return made


def dedup_stage(kitchen: Kitchen) -> Digests:
    """Copies go."""

    def run(name: str, source: Corpus, out: Path, advance: OnProgress) -> Corpus:
        nearness = preset(kitchen.cookbook.corpora[name].dedup, None)
        return dedup(source, out, nearness=nearness, workers=kitchen.shards_by, on_progress=advance)

    return _each(kitchen, "dedup", run)


def transform_stage(kitchen: Kitchen) -> Digests:
    """Notices and secrets go."""

    def run(_name: str, source: Corpus, out: Path, advance: OnProgress) -> Corpus:
        spec = transform_spec()
        return run_stage(spec, source, out, workers=kitchen.shards_by, on_progress=advance)

    return _each(kitchen, "transform", run)


def filter_stage(kitchen: Kitchen) -> Digests:
    """Documents of little worth go."""

    def run(name: str, source: Corpus, out: Path, advance: OnProgress) -> Corpus:
        settings = kitchen.cookbook.corpora[name]
        spec = filter_spec(settings.filter, settings.thresholds)
        return run_stage(spec, source, out, workers=kitchen.shards_by, on_progress=advance)

    return _each(kitchen, "filter", run)


def decontaminate_stage(kitchen: Kitchen) -> Digests:
    """Documents that hold parts of a test set go."""
    sets = kitchen.tests()
    if not sets:
        return {}

    def run(_name: str, source: Corpus, out: Path, advance: OnProgress) -> Corpus:
        return decontaminate(source, out, sets=sets, workers=kitchen.shards_by, on_progress=advance)

    return _each(kitchen, "decontaminate", run)


def mix_stage(kitchen: Kitchen) -> Digests:
    """So much of each corpus."""
    made = {}
    for name, settings in kitchen.cookbook.mixtures.items():
        parts = {part: kitchen.cleaned(part) for part in settings.shares}
        mixture = Mixture(budget=settings.budget, shares=settings.shares, caps=settings.caps)
        with kitchen.progress.task(f"mix {name}", len(parts), "parts") as advance:
            out = kitchen.directory / "mixtures" / name
            made[name] = mix(
                parts, out, mixture=mixture, workers=kitchen.shards_by
            ).manifest.content
            advance(len(parts), "")
    return made


def instruct_stage(kitchen: Kitchen) -> Digests:
    """The rows of every stage of fine-tuning."""
    made = {}
    for name, settings in kitchen.cookbook.instruct.items():
        parts = {part: Path(kitchen.place(text)) for part, text in settings.parts.items()}
        with kitchen.progress.task(f"instruct {name}", len(parts), "parts") as advance:
            made[name] = instruct(
                parts,
                kitchen.directory / "instruct" / name,
                quotas=settings.rows,
                sets=kitchen.tests(),
                checks=settings.checks,
                on_progress=advance,
            ).manifest["sha256"]
    return made


RunOne = Callable[[str, Corpus, Path, OnProgress], Corpus]


def _each(kitchen: Kitchen, stage: str, run: RunOne) -> Digests:
    made = {}
    for name in (*kitchen.cookbook.corpora, *kitchen.cookbook.synth):
        if stage not in kitchen.corpus_stages(name):
            continue
        source = kitchen.before(stage, name)
        title = f"{stage} {name}"
        with kitchen.progress.task(title, len(source.shards), "shards") as advance:
            corpus = run(name, source, kitchen.corpus_stage(stage, name), advance)
        made[name] = corpus.manifest.content
    return made


def _inputs(kitchen: Kitchen, texts: tuple[str, ...]) -> list[str]:
    """The inputs with patterns resolved."""
    found: list[str] = []
    for text in texts:
        if text.startswith(WORLD) or HUB in text or not glob.has_magic(text):
            found.append(kitchen.place(text))
            continue
        matches = sorted(glob.glob(text))  # noqa: PTH207 - the pattern is a whole path
        if not matches:
            raise DataError(f"no file matches {text}")
        found += matches
    return found
