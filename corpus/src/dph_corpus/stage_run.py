"""A stage over a whole corpus: shard by shard in worker processes, and on after a kill.

A finished shard leaves a note (``.done/<part>.json``) that says what it was made from. It is
skipped as long as the stage, its settings, the shard it was made from and its own files are the
same; the manifest is written when all shards are there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dph._base.files import make_directory, only_writer, sha256, write_json
from dph._base.import_path import load_callable
from dph.errors import DataError
from dph_corpus import remote
from dph_corpus.documents import ContentDigest
from dph_corpus.running import run_steps
from dph_corpus.shard_work import StageShard, part_path
from dph_corpus.shards import (
    DROPPED,
    KEPT,
    MANIFEST,
    Corpus,
    CorpusManifest,
    Flow,
    Shard,
    digest,
    join_parts,
    open_corpus,
)
from dph_corpus.stage import DocumentStage, StageSpec

_MOST_GIVEN_UP = 100
"""Documents of a shard that may cost a worker; more of them are a fault of the stage."""

WORK = ".work"
"""Of a stage's directory: what it needs on the way."""

OnProgress = Callable[[int, str], object]
"""Told how many shards are done since the last call, and a few words on the newest."""


def run_stage(
    spec: StageSpec,
    source: Corpus,
    out: Path,
    *,
    workers: int = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Put the documents of ``source`` through the stage and return what was kept.

    The same stage over the same documents makes the same bytes, whatever the workers and however
    often it was killed.

    Raises:
        SettingsError: the stage does not take its settings.
        DataError: a file cannot be read, or ``out`` is the source's directory or held by another
            process.
        StageError: the stage broke.
    """
    require_other_directory(out, source)
    stage: DocumentStage = load_callable(spec.entry)(spec.given())
    with sole_writer(out):
        steps = [
            StageShard(
                name=shard.name,
                key=digest(spec.key() | {"shard": shard.sha256}),
                out=out,
                tables=[*stage.tables],
                input=source.path(shard),
                stage=spec.name,
                entry=spec.entry,
                settings=spec.given(),
                seconds=spec.seconds,
            )
            for shard in source.shards
        ]
        summaries = run_steps(
            steps,
            out / ".done",
            workers=workers,
            most_given_up=_MOST_GIVEN_UP,
            on_begin=lambda: remote.removed(out / MANIFEST),
            on_progress=on_progress,
        )
        history = [*source.manifest.history, spec.key() | {"input": source.manifest.content}]
        names = [shard.name for shard in source.shards]
        return finish_stage(out, spec.name, names, summaries, history=history, tables=stage.tables)


def require_other_directory(out: Path, *sources: Corpus) -> None:
    """Refuse to write into the directory of an input."""
    if any(source.directory.resolve() == out.resolve() for source in sources):
        raise DataError(f"the output must be a different directory from the input {out}")


@contextmanager
def sole_writer(out: Path) -> Iterator[None]:
    """Hold the directory ``out`` of a stage; whoever comes second is refused."""
    with only_writer(out):
        if remote.url_of(out) is None:
            yield
            return
        with remote.Claims() as claims:
            if not claims.wait_for(out / ".writer"):
                raise DataError(
                    f"another dph process is writing into {remote.shown(out)}; help it with "
                    f"`dph-corpus work {remote.shown(out)}`, or choose another directory"
                )
            yield


def made_once(
    sources: Iterable[Corpus],
    out: Path,
    *,
    history: Sequence[Mapping[str, Any]],
    shards: int,
    make: Callable[[], Corpus],
    beside: Callable[[], bool] = lambda: True,
) -> Corpus:
    """The frame of a stage that looks at whole corpora before it writes a shard.

    What was made of the same before, in as many shards, is kept. Else ``make`` runs, without a
    manifest in ``out``; what it leaves in ``out / WORK`` goes in the end. ``beside`` says whether
    the stage's other files are unchanged.
    """
    require_other_directory(out, *sources)
    with sole_writer(out):
        found = unchanged(out, history, shards) if beside() else None
        if found is None:
            remote.removed(out / MANIFEST)
            found = make()
        remote.removed(out / WORK)
    return found


def finish_stage(
    out: Path,
    stage: str,
    names: Sequence[str],
    summaries: Sequence[Mapping[str, Any]],
    *,
    history: Sequence[Mapping[str, Any]],
    tables: Mapping[str, pa.Schema] = MappingProxyType({}),
    before: Sequence[Flow] = (),
) -> Corpus:
    """Put together what the shards of a stage left, and write its manifest."""
    made_now = not remote.is_there(out / MANIFEST)
    for table, schema in tables.items():
        target = out / f"{table}.parquet"
        if made_now or not remote.is_there(target):
            parts = (remote.fetched(part_path(out, table, name)) for name in names)
            join_parts(parts, target, schema)
            remote.sent(target)
    content, flow, shards = ContentDigest(), Flow(), []
    for earlier in before:
        flow.add(earlier)
    for name, summary in zip(names, summaries, strict=True):
        content.merge(summary["content"])
        flow.add(Flow.of(summary["flow"]))
        kept = summary["files"][KEPT]
        shards.append(Shard(name, summary["documents"], summary["bytes"], kept))
    for table in (KEPT, DROPPED):
        for name in remote.names(make_directory(out / table)) - set(names):
            remote.removed(out / table / name)
    manifest = CorpusManifest(stage, shards, content.hex(), history, flow.bounded())
    write_json(out / MANIFEST, manifest.json())
    remote.sent(out / MANIFEST)
    for name in remote.names(out / ".done") - {f"{name}.json" for name in names}:
        remote.removed(out / ".done" / name)
    for table in remote.names(out / ".parts") - set(tables):
        remote.removed(out / ".parts" / table)
    return open_corpus(out)


def unchanged(out: Path, history: Sequence[Mapping[str, Any]], shards: int) -> Corpus | None:
    """An earlier result of the same input, if it exists and is whole."""
    try:
        corpus = open_corpus(out)
    except DataError:  # unfinished, or a shard is missing
        return None
    same = digest([*corpus.manifest.history]) == digest([*history])
    return corpus if same and len(corpus.shards) == shards and whole(corpus) else None


def whole(corpus: Corpus) -> bool:
    """Whether the shards are still as written; an object appears whole, and is not read again."""
    if remote.url_of(corpus.directory):
        return True
    return all(sha256(corpus.path(shard)) == shard.sha256 for shard in corpus.shards)
