"""Recall over a corpus of pages: the rounds, then the cut by what the last of them has scored.

The rounds leave the last classifier, the related domains and ``url_patterns.csv`` for review in the
output's directory.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dph._base.files import atomic_file, read_json, sha256, write_json
from dph.errors import DataError
from dph_corpus.recall.review import (
    Learnt,
    Patterns,
    accepted,
    read_labels,
    read_review,
    write_review,
)
from dph_corpus.recall.rounds import Rounds
from dph_corpus.recall.work import TABLE
from dph_corpus.settings import RecallSettings
from dph_corpus.shards import Corpus, digest
from dph_corpus.stage_run import OnProgress, finish_stage, made_once
from dph_corpus.tables import TableWriter, schema_of

VERSION = 3
"""Counts up when the same pages, seeds and settings give another outcome."""
ROUNDS, REVIEW, DOMAINS = "rounds.json", "url_patterns.csv", "domains.parquet"
_FILES = {"pieces": "pieces.json", "classifier": "classifier", "domains": "related.json"}
_DOMAINS = schema_of("domains")


def recall(
    pages: Corpus,
    seeds: Corpus,
    out: Path,
    *,
    settings: RecallSettings,
    patterns: Path | None = None,
    labelled: Path | None = None,
    workers: int = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Keep the pages that are like the seeds, after rounds of learning."""
    answers = {} if patterns is None else read_review(patterns)
    labels = {} if labelled is None else read_labels(labelled)
    made_by = {
        "stage": "recall",
        "version": VERSION,
        "settings": dict(settings.json()),
        "inputs": {
            "seeds": seeds.manifest.content,
            "accepted": digest(accepted(answers)),
            "labels": digest(labels),
        },
        "input": pages.manifest.content,
    }
    history = [*pages.manifest.history, made_by]

    def make() -> Corpus:
        _require_no_answers_lost(out / REVIEW, answers)
        known = Patterns(accepted(answers))
        rounds = Rounds(pages, seeds, settings, known, labels, out, workers, on_progress)
        learnt = rounds.run()
        _write(out, learnt, digest(made_by), answers)
        summaries = rounds.cut(learnt)
        names = [shard.name for shard in pages.shards]
        tables = {"scores": TABLE}
        return finish_stage(out, "recall", names, summaries, history=history, tables=tables)

    return made_once(
        (pages, seeds),
        out,
        history=history,
        shards=len(pages.shards),
        make=make,
        beside=lambda: _are_done(out, digest(made_by)),
    )


def rounds_of(out: Path) -> Sequence[Mapping[str, Any]]:
    """Records of all rounds (``learnt.Round`` as JSON)."""
    found: Sequence[Mapping[str, Any]] = read_json(out / ROUNDS)["rounds"]
    return found


def _are_done(out: Path, key: str) -> bool:
    try:
        note = read_json(out / ROUNDS)
    except DataError:  # not yet
        return False
    return bool(note.get("key") == key and note.get("files") == _digests(out))


def _digests(out: Path) -> dict[str, str]:
    paths = {name: out / file for name, file in _FILES.items()}
    return {name: sha256(path) for name, path in paths.items() if path.is_file()}


def _require_no_answers_lost(review: Path, answers: Mapping[str, bool | None]) -> None:
    """Refuse to write over answers of a person that this run was not given."""
    found = read_review(review) if review.is_file() else {}
    lost = [name for name, answer in found.items() if answer is not None and name not in answers]
    if lost:
        raise DataError(
            f"{review} holds an answer about {lost[0]!r}, which this run would write over: give "
            "the file as --patterns, or move it away"
        )


def _write(out: Path, learnt: Learnt, key: str, answers: Mapping[str, bool | None]) -> None:
    for name, source in (("pieces", learnt.files.pieces), ("classifier", learnt.files.classifier)):
        with atomic_file(out / _FILES[name]) as temporary:
            shutil.copyfile(source, temporary)
    related = {"related": list(learnt.related), "accepted": list(accepted(answers))}
    write_json(out / _FILES["domains"], related)
    with atomic_file(out / DOMAINS) as temporary, TableWriter(temporary, _DOMAINS) as table:
        for domain in learnt.domains:
            table.write(asdict(domain))
    write_review(out / REVIEW, learnt.sections, answers)
    rounds = [asdict(one) for one in learnt.rounds]
    write_json(out / ROUNDS, {"key": key, "files": _digests(out), "rounds": rounds})
