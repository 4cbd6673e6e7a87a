"""Recall over a corpus of pages: the rounds, then what they have learnt as a stage.

The rounds leave the last classifier, the related domains and ``url_patterns.csv`` for review in the
output's directory; the last step reads them as any stage reads its files.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.corpus.extra import require
from dph.corpus.recall.classifier import packages_of
from dph.corpus.recall.labelled import read_labels
from dph.corpus.recall.review import accepted, read_review, write_review
from dph.corpus.recall.rounds import Learnt, Rounds
from dph.corpus.recall.settings import RecallSettings
from dph.corpus.recall.urls import Patterns
from dph.corpus.shards import Corpus, digest
from dph.corpus.stage import StageSpec
from dph.corpus.stage_run import OnProgress, run_stage
from dph.corpus.tables import TableWriter
from dph.errors import DataError
from dph.files import atomic_file, make_directory, only_writer, read_json, sha256, write_json

VERSION = 1
"""Counts up when the same pages, seeds and settings give another outcome."""
ROUNDS, REVIEW, DOMAINS = "rounds.json", "url_patterns.csv", "domains.parquet"
_FILES = {"pieces": "pieces.json", "classifier": "classifier", "domains": "related.json"}
_DOMAINS = pa.schema(
    [
        ("round", pa.int64()),
        ("domain", pa.string()),
        ("pages", pa.int64()),
        ("recalled", pa.int64()),
        ("related", pa.bool_()),
    ]
)
_WORK = ".work"


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
    """Keep the pages that are like the seeds, after rounds of learning.

    Args:
        pages: what is searched.
        seeds: documents that are what is looked for.
        out: the directory to write.
        settings: how.
        patterns: a reviewed ``url_patterns.csv``; without one nothing joins the seed, and the first
            round is the last.
        labelled: pages (``id``) with the truth about them (``relevant``): recall and precision of
            each round are measured on them.
        workers: processes.
        on_progress: told of shards that were scored or cut.

    Raises:
        SettingsError: the classifier's package is not installed.
        DataError: a file cannot be read, there is nothing to learn from, or ``out`` is an input's
            directory or held by another process.
        StageError: a worker could not do its part.
    """
    require(packages_of(settings.classifier), "recall")
    for source in (pages, seeds):
        if source.directory.resolve() == out.resolve():
            raise DataError(f"the output must be another directory than the input {out}")
    answers = {} if patterns is None else read_review(patterns)
    labels = {} if labelled is None else read_labels(labelled)
    key = digest(
        {"version": VERSION, "settings": dict(settings.json()), "pages": pages.manifest.content}
        | {"seeds": seeds.manifest.content, "accepted": accepted(answers), "labels": labels}
    )
    with only_writer(make_directory(out)):
        if not _are_done(out, key):
            rounds = Rounds(
                pages,
                seeds,
                settings,
                Patterns(accepted(answers)),
                labels,
                out / _WORK,
                workers,
                on_progress,
            )
            _write(out, rounds.run(), key, answers)
        if (out / _WORK).exists():
            shutil.rmtree(out / _WORK)
    spec = _spec(out, settings, seeds)
    return run_stage(spec, pages, out, workers=workers, on_progress=on_progress)


def rounds_of(out: Path) -> Sequence[Mapping[str, Any]]:
    """What each round did (``rounds.Round`` as JSON).

    Raises:
        DataError: recall has not been run there.
    """
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


def _write(out: Path, learnt: Learnt, key: str, answers: Mapping[str, bool | None]) -> None:
    for name, source in (("pieces", learnt.pieces), ("classifier", learnt.classifier)):
        with atomic_file(out / _FILES[name]) as temporary:
            shutil.copyfile(source, temporary)
    related = {"related": list(learnt.related), "accepted": list(accepted(answers))}
    write_json(out / _FILES["domains"], related)
    with atomic_file(out / DOMAINS) as temporary, TableWriter(temporary, _DOMAINS) as table:
        for domain in learnt.domains:
            table.write(asdict(domain))
    write_review(out / REVIEW, learnt.sections, answers)
    rounds = [dict(one.json()) for one in learnt.rounds]
    write_json(out / ROUNDS, {"key": key, "files": _digests(out), "rounds": rounds})


def _spec(out: Path, settings: RecallSettings, seeds: Corpus) -> StageSpec:
    files = {name: out / file for name, file in _FILES.items()}
    return StageSpec(
        name="recall",
        entry="dph.corpus.recall.stage:make_stage",
        settings=settings.json(),
        version=VERSION,
        inputs={name: sha256(path) for name, path in files.items()}
        | {"seeds": seeds.manifest.content},
        files={name: str(path.resolve()) for name, path in files.items()},
    )
