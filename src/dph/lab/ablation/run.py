"""The ablation: every arm, model and seed at equal tokens, and what it says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import PreTrainedTokenizerBase

from dph._base.files import make_directory, only_writer, read_json, write_json, write_text
from dph._base.randomness import generator
from dph.corpus import Corpus, Document, DocumentOutcome, run_stage
from dph.corpus.dedup.presets import preset
from dph.corpus.dedup.run import dedup
from dph.corpus.documents import position
from dph.corpus.rules.spec import filter_spec
from dph.corpus.shard_work import write_shard
from dph.corpus.shards import digest, shard_name
from dph.corpus.stage_run import finish_stage, made_once
from dph.corpus.steps import Workers
from dph.errors import DataError
from dph.lab.ablation.kneser_ney import KneserNey, transformer_bits
from dph.lab.ablation.settings import NGRAM, AblationSettings
from dph.lab.ablation.texts import Heldout, heldout_sequences, learnt_sequences, shared_tokenizer
from dph.model.fingerprint import tokenizer_fingerprint
from dph.results.charts.text_table import markdown_rows
from dph.results.over_seeds import t_interval
from dph.runs.progress import ProgressDisplay

# The four arms of an ablation: the same raw text, as it is, deduplicated, filtered, and both.

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
        outcomes = ((document, DocumentOutcome(document)) for document in documents)
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


# What an ablation found: bits a byte by arm, differences to raw paired by seed, as a table.

SCHEMA = 1

Cells = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""By model and arm, seed by seed."""


def outcome(
    settings: AblationSettings, pools: Mapping[str, Corpus], heldout: Heldout, cells: Cells
) -> dict[str, Any]:
    """All that was measured, as JSON.

    ``bits_per_byte`` are of held-out code, a list over the seeds; ``difference`` is the arm's minus
    that of raw with the same seed, its mean and 95% t-interval over the seeds: below 0 the arm is
    better.
    """
    return {
        "schema": SCHEMA,
        "settings": settings.model_dump(mode="json"),
        "heldout": {
            "documents": heldout.documents,
            "repeated": heldout.repeated,
            "tokens": heldout.sequences.size,
            "bytes_per_token": heldout.bytes_per_token,
        },
        "arms": {
            arm: {
                "documents": pool.manifest.documents,
                "bytes": pool.manifest.bytes,
                "content": pool.manifest.content,
                "tokens": next(iter(cells.values()))[arm][0]["pool_tokens"],
            }
            for arm, pool in pools.items()
        },
        "models": {name: _model(arms, heldout.bytes_per_token) for name, arms in cells.items()},
    }


def _model(
    arms: Mapping[str, Sequence[Mapping[str, Any]]], bytes_per_token: float
) -> dict[str, Any]:
    bits = {
        arm: [cell["bits_per_token"] / bytes_per_token for cell in cells]
        for arm, cells in arms.items()
    }
    return {arm: _arm(values, bits[RAW]) for arm, values in bits.items()}


def _arm(values: Sequence[float], raw: Sequence[float]) -> dict[str, Any]:
    differences = [one - other for one, other in zip(values, raw, strict=True)]
    low, high = t_interval(differences)
    return {
        "bits_per_byte": list(values),
        "mean": fmean(values),
        "difference": {"mean": fmean(differences), "ci95": [low, high]},
    }


def table(result: Mapping[str, Any]) -> str:
    """The outcome as Markdown: a row an arm."""
    models = list(result["models"])
    header = ["arm", "documents", "MB", "passes"]
    for name in models:
        header += [f"{name}, bits a byte", "minus raw [95%]"]
    learnt = result["settings"]["tokens"]
    rows = []
    for arm, pool in result["arms"].items():
        row = [arm, str(pool["documents"]), f"{pool['bytes'] / 1e6:.2f}"]
        row.append(f"{learnt / pool['tokens']:.2f}")
        for name in models:
            row += _cells(arm, result["models"][name][arm])
        rows.append(row)
    return markdown_rows(header, rows, left=len(header))


def _cells(arm: str, found: Mapping[str, Any]) -> list[str]:
    difference = found["difference"]
    low, high = difference["ci95"]
    paired = "" if arm == RAW else f"{difference['mean']:+.3f} [{low:+.3f}, {high:+.3f}]"
    return [f"{found['mean']:.3f}", paired]


"""Counts up when the same corpora and settings give other numbers."""
RESULT, TABLE = "ablation.json", "ablation.md"


def ablate(
    source: Corpus,
    heldout: Corpus,
    out: Path,
    settings: AblationSettings,
    progress: ProgressDisplay,
    *,
    workers: Workers = 1,
) -> Mapping[str, Any]:
    """Learn raw, deduplicated, filtered and twice cleaned text, and measure all on held-out code.

    Every arm gives the same number of tokens to the same models with the same seeds; a seed
    decides the sequences that are drawn and the first weights. Differences to raw are paired by
    seed. Leaves the arms, ``ablation.json`` and ``ablation.md``; a run that was killed goes on
    with the model it was in.

    Args:
        source: raw documents.
        heldout: code of other repositories. What the raw pool has too is left out.
        out: the directory to write.
        settings: how much.
        progress: told of arms and models.
        workers: processes of the stages of the corpus.

    Returns:
        What ``ablation.json`` holds (``dph.lab.ablation.run``).

    Raises:
        DataError: an arm or the held-out code has too little text, or ``out`` is held by another
            process.
        StageError: a stage failed.
    """
    with only_writer(make_directory(out)):
        pools = make_pools(source, out / "pools", settings, progress, workers=workers)
        tokenizer = shared_tokenizer(pools[RAW], out, settings)
        known = {document.sha256 for document in pools[RAW].documents()}
        cells = _Cells(
            out,
            settings,
            pools,
            tokenizer,
            heldout_sequences(heldout, tokenizer, settings, known),
            heldout.manifest.content,
            progress,
        )
        found = cells.measure()
        result = outcome(settings, pools, cells.heldout, found)
        write_json(out / RESULT, result)
        write_text(out / TABLE, table(result) + "\n")
    return result


@dataclass(frozen=True, slots=True)
class _Cells:
    """Models of all arms and seeds, each measured once."""

    out: Path
    settings: AblationSettings
    pools: Mapping[str, Corpus]
    tokenizer: PreTrainedTokenizerBase
    heldout: Heldout
    heldout_content: str
    progress: ProgressDisplay

    def measure(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Measurements, by model and arm, seed by seed."""
        seeds = range(self.settings.seed, self.settings.seed + self.settings.seeds)
        names = self.settings.models
        found: dict[str, dict[str, list[dict[str, Any]]]] = {
            name: {arm: [] for arm in ARMS} for name in names
        }
        total = len(names) * len(seeds) * len(ARMS)
        with self.progress.task("ablation", total, "models") as advance:
            for name in names:
                for seed in seeds:
                    for arm in ARMS:
                        found[name][arm].append(self._cell(name, arm, seed))
                        advance(1, f"{name} {arm} seed {seed}")
        return found

    def _cell(self, model: str, arm: str, seed: int) -> dict[str, Any]:
        """Measured once for arms of the same documents, as where there is no copy to drop."""
        content = self.pools[arm].manifest.content
        path = self.out / "cells" / f"{model}-{content[:16]}-{seed}.json"
        key = digest(
            {
                "version": VERSION,
                "settings": self.settings.model_dump(mode="json", exclude={"models", "seeds"}),
                "pool": content,
                "tokenizer": tokenizer_fingerprint(self.tokenizer),
                "heldout": self.heldout_content,
                "cell": [model, seed],
            }
        )
        if path.is_file() and (note := read_json(path)).get("key") == key:
            return dict(note["cell"])
        cell = self._measured(model, arm, seed)
        write_json(make_directory(path.parent) / path.name, {"key": key, "cell": cell})
        return cell

    def _measured(self, model: str, arm: str, seed: int) -> dict[str, Any]:
        pool = self.pools[arm]
        name = pool.manifest.content[:16]
        tokens = self.out / "tokens" / name
        learnt, available = learnt_sequences(pool, self.tokenizer, tokens, self.settings, seed)
        if model == NGRAM:
            grams = KneserNey.learn(
                learnt, order=self.settings.order, vocabulary=len(self.tokenizer)
            )
            bits = float(grams.bits(self.heldout.sequences).mean())
        else:
            bits = transformer_bits(
                pool,
                Path(self.tokenizer.name_or_path),
                self.heldout.sequences,
                self.settings,
                seed,
                self.out / "models" / f"{name}-{seed}",
                tokens,
                self.progress,
            )
        return {"bits_per_token": bits, "pool_tokens": available}
