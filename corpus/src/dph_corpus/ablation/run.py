"""The ablation: every arm, model and seed at equal tokens, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from dph._base.files import (
    make_directory,
    only_writer,
    read_json,
    write_json,
    write_json_lines,
    write_text,
)
from dph._base.files.rows import json_rows
from dph._base.provenance import code_commit, versions
from dph.errors import DataError
from dph.model.policies import tokenizer_fingerprint
from dph.runs.progress import ProgressDisplay
from dph_corpus import Corpus
from dph_corpus.ablation.arms import FAMILIES, make_pools
from dph_corpus.ablation.kneser_ney import KneserNey, transformer_bits
from dph_corpus.ablation.outcome import DEVELOPMENT, REPORT, Row, outcome, power_of, tables
from dph_corpus.ablation.settings import NGRAM, AblationSettings
from dph_corpus.ablation.texts import Heldout, heldout_sequences, learnt_sequences, shared_tokenizer
from dph_corpus.running import Workers
from dph_corpus.shards import digest
from lab.study.rule_lock import held_lock

VERSION = 2
"""Counts up when the same corpora and settings give other numbers."""
RESULT, TABLE, ROWS, LOCK = "ablation.json", "ablation.md", "rows.jsonl", "rule.lock.json"
_OF_REPORT = {"models", "seeds", "development", "margin", "arms"}
"""Settings that no single measurement depends on."""


def ablate(
    source: Corpus,
    heldout: Corpus,
    out: Path,
    settings: AblationSettings,
    progress: ProgressDisplay,
    *,
    workers: Workers = 1,
) -> Mapping[str, Any]:
    """Learn the text of every arm and measure all on held-out text.

    Every arm gives the same number of tokens to the same models with the same seeds; a seed
    decides the sequences that are drawn and the first weights. Differences are paired by seed.
    Development seeds come first; then ``rule.lock.json`` says what is compared and with which
    power, and is not changed once there is a row of a report seed. Leaves the arms, ``rows.jsonl``,
    ``ablation.json`` and ``ablation.md``; a run that was killed continues with the model that it
    was in.

    Args:
        source: raw documents.
        heldout: text of other repositories. What the raw pool has too is left out.
        out: the directory to write.
        settings: how much.
        progress: told of arms and models.
        workers: processes of the stages of the corpus.

    Returns:
        Content of ``ablation.json`` (``dph_corpus.ablation.outcome``).

    Raises:
        DataError: an arm or the held-out text has too little text, the rule changed after rows of
            report seeds, or ``out`` is held by another process.
        StageError: a stage failed.
    """
    with only_writer(make_directory(out)):
        pools = make_pools(source, out / "pools", settings, progress, workers=workers)
        raw = pools[FAMILIES[settings.arms].reference]
        tokenizer = shared_tokenizer(raw, out, settings)
        known = {document.sha256 for document in raw.documents()}  # arms only leave out
        told = heldout_sequences(heldout, tokenizer, settings, known)
        content = heldout.manifest.content
        cells = _Cells(out, settings, pools, tokenizer, told, content, progress)
        lock = cells.lock()
        cells.measure(REPORT, lock["rule_sha256"])
        result = outcome(lock, cells.rows)
        write_json(out / RESULT, result)
        write_text(out / TABLE, tables(result) + "\n")
    return result


@dataclass(frozen=True, slots=True)
class _Cells:
    """Models of all arms and seeds, each measured once."""

    out: Path
    settings: AblationSettings
    pools: Mapping[str, Corpus]
    tokenizer: PreTrainedTokenizerBase
    heldout: Mapping[str, Heldout]
    heldout_content: str
    progress: ProgressDisplay
    rows: list[Row] = field(default_factory=list)
    reported: list[Row] = field(default_factory=list)
    """Rows of report seeds of a run before, which stay in the file until they are here again."""

    def lock(self) -> dict[str, Any]:
        """The rule and its power, written before the first row of a report seed.

        Raises:
            DataError: it changed after rows of report seeds.
        """
        place = self.out / LOCK
        rule = self._rule()
        seeds = {
            "seeds_development": list(self.settings.development_seeds),
            "seeds_report": list(self.settings.report_seeds),
        }
        found = read_json(place) if place.exists() else {}
        self.reported.extend(row for row in read_rows(self.out / ROWS) if row["rule_sha256"])
        reported = {row["rule_sha256"] for row in self.reported}
        held = held_lock(found, digest(rule), reported, seeds, "give another directory (--out)")
        self.measure(DEVELOPMENT, None)
        document = {
            "schema": VERSION,
            "rule_sha256": held.sha256,
            "replaces": list(held.replaces),
            **seeds,
            "rule": rule,
            "heldout": {name: of.facts() for name, of in self.heldout.items()},
            "pools": self._pool_facts(),
            "power": power_of(self.rows, rule),
        }
        write_json(place, document)
        return document

    def _rule(self) -> dict[str, Any]:
        """All that the numbers of the table depend on, and how they are read."""
        family = FAMILIES[self.settings.arms]
        return self.settings.model_dump(mode="json") | {
            "comparisons": [asdict(each) for each in family.comparisons],
            "texts": {arm: pool.manifest.content for arm, pool in self.pools.items()},
            "heldout_text": self.heldout_content,
            "tokenizer": tokenizer_fingerprint(self.tokenizer),
        }

    def _pool_facts(self) -> dict[str, Any]:
        return {
            arm: {
                "documents": pool.manifest.documents,
                "bytes": pool.manifest.bytes,
                "tokens": self._learnt(arm, self.settings.seed)[1],
            }
            for arm, pool in self.pools.items()
        }

    def measure(self, split: str, rule: str | None) -> None:
        """Measure all models of a split, and leave a row for each."""
        seeds = self.settings.report_seeds if rule else self.settings.development_seeds
        names = self.settings.models
        total = len(names) * len(seeds) * len(self.pools)
        with self.progress.task(f"models, {split}", total, "models") as advance:
            for name in names:
                for seed in seeds:
                    for arm in self.pools:
                        cell = {"model": name, "arm": arm, "seed": seed, "split": split}
                        self.rows.append(cell | self._cell(name, arm, seed) | {"rule_sha256": rule})
                        advance(1, f"{name} {arm} seed {seed}")
                    self._write_rows()

    def _write_rows(self) -> None:
        measured = sum(row["split"] == REPORT for row in self.rows)
        write_json_lines(self.out / ROWS, [*self.rows, *self.reported[measured:]])

    def _cell(self, model: str, arm: str, seed: int) -> dict[str, Any]:
        """Measured once for arms of the same documents, as where there is no copy to drop."""
        content = self.pools[arm].manifest.content
        path = self.out / "cells" / f"{model}-{self._called(arm, seed)}.json"
        key = digest(
            {
                "version": VERSION,
                "settings": self.settings.model_dump(mode="json", exclude=_OF_REPORT),
                "pool": content,
                "tokenizer": tokenizer_fingerprint(self.tokenizer),
                "heldout": [self.heldout_content, {n: h.facts() for n, h in self.heldout.items()}],
                "cell": [model, seed, *(["annealed"] if self._is_annealed(arm) else [])],
            }
        )
        if path.is_file() and (note := read_json(path)).get("key") == key:
            return dict(note["cell"])
        cell = {
            "bits_per_byte": self._bits_per_byte(model, arm, seed),
            "commit": code_commit(),
            "versions": versions(torch.backends.cpu.get_cpu_capability()),
        }
        write_json(make_directory(path.parent) / path.name, {"key": key, "cell": cell})
        return cell

    def _bits_per_byte(self, model: str, arm: str, seed: int) -> dict[str, float]:
        heldout = {name: of.sequences for name, of in self.heldout.items()}
        if model == NGRAM:
            grams = KneserNey.learn(
                self._learnt(arm, seed)[0],
                order=self.settings.order,
                vocabulary=len(self.tokenizer),
            )
            bits = {name: float(grams.bits(of).mean()) for name, of in heldout.items()}
        else:
            pool = self.pools[arm]
            bits = transformer_bits(
                pool,
                Path(self.tokenizer.name_or_path),
                heldout,
                self.settings,
                seed,
                self.out / "models" / self._called(arm, seed),
                self._tokens(pool),
                self.progress,
                annealed=self._is_annealed(arm),
            )
        return {name: value / self.heldout[name].bytes_per_token for name, value in bits.items()}

    def _is_annealed(self, arm: str) -> bool:
        return arm in FAMILIES[self.settings.arms].annealed

    def _called(self, arm: str, seed: int) -> str:
        """Name of what is learnt: the same for arms of the same documents and rates."""
        annealed = "-annealed" if self._is_annealed(arm) else ""
        return f"{self.pools[arm].manifest.content[:16]}-{seed}{annealed}"

    def _learnt(self, arm: str, seed: int) -> tuple[Any, int]:
        pool = self.pools[arm]
        return learnt_sequences(pool, self.tokenizer, self._tokens(pool), self.settings, seed)

    def _tokens(self, pool: Corpus) -> Path:
        return self.out / "tokens" / pool.manifest.content[:16]


def read_rows(path: Path) -> Sequence[Row]:
    """The rows of an ablation, none where it has not begun.

    Raises:
        DataError: a line is not a JSON object.
    """
    rows = [*json_rows(path)] if path.is_file() else []
    for place, row in rows:
        if not isinstance(row, dict) or "rule_sha256" not in row:
            raise DataError(f"{place}: not a row of an ablation: {row!r:.80}")
    return [row for _, row in rows]
