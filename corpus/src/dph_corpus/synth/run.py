"""Synthesis: seeds in, a corpus of rows out that were kept because they were executed.

Answers are drawn and judged chunk by chunk; a finished chunk is not drawn again. Of rows with the
same text the first in the order of the seeds stays.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph._base.files import write_text
from dph._base.files.parts import TableParts
from dph_corpus.documents import DocType, Document, position
from dph_corpus.settings import SQL, SynthSettings
from dph_corpus.shard_work import write_shard
from dph_corpus.shards import Corpus, digest, shard_name
from dph_corpus.stage import DocumentOutcome, Drop
from dph_corpus.stage_run import OnProgress, finish_stage, made_once
from dph_corpus.synth.seeds import VERSION, Seed, seeds_digest
from dph_corpus.synth.writing import Writer, WrittenAnswer
from dph_corpus.tables import schema_of

ROWS = schema_of("rows")
"""``rows.parquet``: what was kept, to learn from (``prompt``, ``response``) and to grade by."""
PROBLEMS = "problems.jsonl"
_WRITTEN = schema_of("written")
_CHUNK = 64
_REPEATED = "repeated"


def synthesise(
    settings: SynthSettings,
    seeds: Sequence[Seed],
    write: Writer,
    out: Path,
    *,
    generator: Mapping[str, Any],
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Write ``settings.samples`` answers for each seed, and keep those that hold."""
    kind = settings.kind
    made_by = {"stage": "synth", "version": VERSION, "settings": settings.json(generator)}
    made_by["seeds"] = seeds_digest(seeds)

    def make() -> Corpus:
        parts = TableParts(out / ".chunks", job={"digest": digest(made_by)})
        asked = [(one, index) for one in seeds for index in range(settings.samples)]
        written = _written(asked, write, parts, settings.seed, on_progress)
        name, tables = shard_name(0, 1), {"rows": ROWS}
        summary = write_shard(_outcomes(kind, written), "synth", out, name, tables=tables)
        _write_problems(kind, written, out)
        made = finish_stage(out, "synth", [name], [summary], history=[made_by], tables=tables)
        parts.remove()
        return made

    return made_once((), out, history=[made_by], shards=1, make=make)


def _written(
    asked: Sequence[tuple[Seed, int]],
    write: Writer,
    parts: TableParts,
    seed: int,
    on_progress: Callable[[int, str], object],
) -> list[WrittenAnswer]:
    found: list[WrittenAnswer] = []
    for number, begin in enumerate(range(0, len(asked), _CHUNK)):
        chunk = asked[begin : begin + _CHUNK]
        table = parts.read(number)
        if table is None:
            rows = [_packed(one) for one in write(chunk, seed)]
            table = pa.Table.from_pylist(rows, schema=_WRITTEN)
            parts.write(number, table)
        found += [WrittenAnswer(**r | {"row": json.loads(r["row"])}) for r in table.to_pylist()]
        kept = sum(not one.reason for one in found)
        on_progress(len(chunk), f"{kept} kept")
    return _without_repeats(found)


def _packed(one: WrittenAnswer) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _WRITTEN.names} | {"row": json.dumps(one.row)}


def _without_repeats(found: Sequence[WrittenAnswer]) -> list[WrittenAnswer]:
    seen: set[str] = set()
    rows = []
    for one in found:
        again = not one.reason and one.text in seen
        if not one.reason:
            seen.add(one.text)
        rows.append(replace(one, reason=_REPEATED, note="", row={}) if again else one)
    return rows


def _outcomes(
    kind: str, written: Sequence[WrittenAnswer]
) -> Iterator[tuple[Document, DocumentOutcome]]:
    pairs = [(_document(kind, one), one) for one in written]
    for document, one in sorted(pairs, key=lambda pair: (position(pair[0].id), pair[0].id)):
        if one.reason:
            yield document, DocumentOutcome(None, [Drop(one.reason, note=one.note[:500])])
        else:
            row = dict.fromkeys(ROWS.names) | dict(one.row)
            row |= {"id": document.id, "kind": kind, "seed_id": one.seed_id}
            yield document, DocumentOutcome(document, rows={"rows": [row]})


def _document(kind: str, one: WrittenAnswer) -> Document:
    language, ending = ("sql", "sql") if kind == SQL else ("python", "py")
    name = f"{kind}/{one.seed_id}/{one.sample}"
    return Document.of(
        one.text,
        id=name,
        path=f"{name}.{ending}",
        source="synth",
        language=language,
        natural_language="en",
        doc_type=DocType.CODE,
    )


def _write_problems(kind: str, written: Sequence[WrittenAnswer], out: Path) -> None:
    """The kept rows as problems for ``dph run``, and for ``dph grade`` with their responses."""
    graded = ("gold_sql", "database") if kind == SQL else ("tests", "entry_point")
    lines = [
        json.dumps(
            {"problem_id": f"{kind}/{one.seed_id}/{one.sample}", "prompt": one.row["prompt"]}
            | {name: one.row[name] for name in graded}
            | {"response": one.row["response"]},
            ensure_ascii=False,
        )
        for one in written
        if not one.reason
    ]
    write_text(out / PROBLEMS, "".join(f"{line}\n" for line in lines))
