"""The ablation: every arm, model and seed at equal tokens, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from dph._base.files import make_directory, only_writer, read_json, write_json, write_text
from dph.corpus import Corpus
from dph.corpus.shards import digest
from dph.corpus.tasks import Workers
from dph.lab.ablation.kneser_ney import KneserNey
from dph.lab.ablation.outcome import outcome, table
from dph.lab.ablation.pools import ARMS, RAW, make_pools
from dph.lab.ablation.settings import NGRAM, AblationSettings
from dph.lab.ablation.texts import Heldout, heldout_sequences, learnt_sequences, shared_tokenizer
from dph.lab.ablation.transformer import transformer_bits
from dph.model.fingerprint import tokenizer_fingerprint
from dph.runs.progress import ProgressDisplay

VERSION = 1
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
        What ``ablation.json`` holds (``dph.lab.ablation.outcome``).

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
        """What was measured, by model and arm, seed by seed."""
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
