"""A mixture of corpora, written as one corpus."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.files import atomic_file, make_directory, sha256
from dph.errors import SettingsError
from dph_corpus import remote
from dph_corpus.documents import Document, position
from dph_corpus.running import run_steps
from dph_corpus.shard_work import ShardStep, write_shard
from dph_corpus.shards import Corpus, Flow, digest, position_range, shard_name, shard_of, shards_for
from dph_corpus.stage import DocumentOutcome, Drop
from dph_corpus.stage_run import WORK, OnProgress, finish_stage, made_once
from dph_corpus.steps import Care
from dph_corpus.tables import TableWriter, read_documents, read_table, schema_of

# How much of a mixture each part is to be.

ANNEALING: Mapping[str, float] = MappingProxyType(
    {"code": 83.94, "algorithmic": 12.44, "synthetic": 2.71, "textbook": 0.91}
)
"""OpenCoder's annealing mixture, in billions of tokens and so in percent (arXiv:2411.04905)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Request for a mixture.

    Args:
        budget: bytes of text in all.
        shares: weight of each part, by its name; only their ratios count.
        caps: the most bytes of a language, by its name in lower case, over all parts.
    """

    budget: int
    shares: Mapping[str, float]
    caps: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise SettingsError(f"the budget must be at least 1 byte, got {self.budget}")
        for name, share in self.shares.items():
            if not 0 < share < 1e9:
                raise SettingsError(f"the share of {name} must lie in (0, 1e9), got {share}")
        for language, cap in self.caps.items():
            if cap < 0 or language != language.lower():
                raise SettingsError(
                    f"a cap must be a language in lower case and at least 0 bytes, got "
                    f"{language}={cap}"
                )

    def quotas(self) -> dict[str, int]:
        """The bytes of each part.

        >>> Mixture(budget=1000, shares={"a": 3, "b": 1}).quotas()
        {'a': 750, 'b': 250}
        """
        total = sum(self.shares.values())
        return {name: round(self.budget * share / total) for name, share in self.shares.items()}

    def json(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {
            "budget": self.budget,
            "shares": dict(sorted(self.shares.items())),
            "caps": dict(sorted(self.caps.items())),
        }


# Which documents a mixture takes: of each part the first in the order of a corpus.
#
# That order is by hash of the id, so what is taken is a uniform sample of each part and language.
# A document that does not fit what is left of its part's share is passed over, and smaller ones
# after it still fill that: only the end of a part prefers small documents.

FULL, CAPPED, TAKEN = "share", "language", "id_taken"
"""Why a document is left out: its part or its language has what it may have, or its id is there
from another part."""


@dataclass(frozen=True, slots=True)
class PartDocument:
    """A document of a part; candidates come in the order of a corpus."""

    part: str
    id: str
    language: str
    bytes: int


class Selection:
    """Takes candidates one by one, and remembers how much was taken."""

    def __init__(self, mixture: Mixture) -> None:
        self._quotas, self._caps = mixture.quotas(), mixture.caps
        self._last_id = ""
        self.taken: Counter[str] = Counter()
        self.by_language: Counter[str] = Counter()

    def left_out(self, candidates: Iterable[PartDocument]) -> Iterator[tuple[PartDocument, str]]:
        """The candidates that are not taken, each with the reason."""
        for candidate in candidates:
            if reason := self._reason(candidate):
                yield candidate, reason
                continue
            self.taken[candidate.part] += candidate.bytes
            self.by_language[candidate.language] += candidate.bytes
            self._last_id = candidate.id

    def shortfalls(self) -> dict[str, int]:
        """Bytes that each part was to have and its documents did not fill.

        Where a part had documents enough this is less than the smallest that was passed over.
        """
        return {part: quota - self.taken[part] for part, quota in self._quotas.items()}

    def _reason(self, candidate: PartDocument) -> str:
        if candidate.id == self._last_id:
            return TAKEN
        cap = self._caps.get(candidate.language)
        if cap is not None and self.by_language[candidate.language] + candidate.bytes > cap:
            return CAPPED
        if self.taken[candidate.part] + candidate.bytes > self._quotas[candidate.part]:
            return FULL
        return ""


# What a worker does for ``mix``: merge the parts' documents of one range of positions.

LEFT_OUT = schema_of("left_out")
"""The documents that a mixture leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixShard(ShardStep):
    """Merges what the parts have at positions in [low, high), without what is left out."""

    low: int
    high: int
    parts: Mapping[str, Sequence[Path]]
    left_out: Path

    def do(self, care: Care) -> dict[str, Any]:
        """Write the documents; where two parts have one of the same id, in the order of names."""
        care.announce("")
        rows = read_table(self.left_out)
        left_out = {(row["part"], row["id"]): row["reason"] for row in rows}
        parts = [self._documents(part) for part in sorted(self.parts)]
        outcomes = (
            (document, _outcome(document, left_out.get((part, document.id))))
            for _, _, part, document in merge(*parts, key=lambda found: found[:3])
        )
        return write_shard(outcomes, "mix", self.out, self.name)

    def _documents(self, part: str) -> Iterator[tuple[int, str, str, Document]]:
        for path in self.parts[part]:
            for document in read_documents(path):
                place = position(document.id)
                if self.low <= place < self.high:
                    yield place, document.id, part, document


def _outcome(document: Document, reason: str | None) -> DocumentOutcome:
    return DocumentOutcome(document) if reason is None else DocumentOutcome(None, [Drop(reason)])


VERSION = 2
"""Counts up when the same parts and settings give another mixture."""
_MARKS = ("id", "language", "bytes")


def mix(
    parts: Mapping[str, Corpus],
    out: Path,
    *,
    mixture: Mixture,
    shards: int | None = None,
    workers: int = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Take of each part what ``mixture`` says, and write it as one corpus.

    A part that has less than its share is told in the manifest's counts (``short <part>``, bytes)
    and never made up for by another; ``taken <language>`` has the bytes of one with a cap.
    """
    if set(parts) != set(mixture.shares):
        raise SettingsError(
            f"parts and shares must have the same names: parts {', '.join(sorted(parts))}; "
            f"shares {', '.join(sorted(mixture.shares))}"
        )
    names = sorted(parts)
    history = [
        {
            "stage": "mix",
            "version": VERSION,
            "settings": mixture.json(),
            "parts": {name: list(parts[name].manifest.history) for name in names},
            "contents": {name: parts[name].manifest.content for name in names},
        }
    ]
    count = shards or shards_for(mixture.budget)

    def make() -> Corpus:
        selection = Selection(mixture)
        files = _write_left_out(parts, selection, out, count)
        steps = [_step(parts, out, index, count, file) for index, file in enumerate(files)]
        summaries = run_steps(steps, out / WORK / "done", workers=workers, on_progress=on_progress)
        told = Flow()
        for name, short in selection.shortfalls().items():
            told.counts[f"bytes {name}"] = selection.taken[name]
            told.counts[f"short {name}"] = short
        for language in mixture.caps:
            told.counts[f"taken {language}"] = selection.by_language[language]
        written = [step.name for step in steps]
        return finish_stage(out, "mix", written, summaries, history=history, before=[told])

    return made_once(parts.values(), out, history=history, shards=count, make=make)


def _write_left_out(
    parts: Mapping[str, Corpus], selection: Selection, out: Path, count: int
) -> list[Path]:
    """A file for each shard to write, with the documents that it leaves out."""
    left_out: list[list[tuple[PartDocument, str]]] = [[] for _ in range(count)]
    merged = merge(
        *(_candidates(name, parts[name]) for name in sorted(parts)), key=lambda found: found[:3]
    )
    for candidate, reason in selection.left_out(found[3] for found in merged):
        left_out[shard_of(candidate.id, count)].append((candidate, reason))
    paths = []
    for index, found in enumerate(left_out):
        path = make_directory(out / WORK) / f"left-out-{shard_name(index, count)}"
        with atomic_file(path) as temporary, TableWriter(temporary, LEFT_OUT) as table:
            for candidate, reason in found:
                table.write({"part": candidate.part, "id": candidate.id, "reason": reason})
        paths.append(remote.sent(path))
    return paths


def _candidates(name: str, corpus: Corpus) -> Iterator[tuple[int, str, str, PartDocument]]:
    for shard in corpus.shards:
        for row in read_table(remote.fetched(corpus.path(shard)), _MARKS):
            candidate = PartDocument(name, row["id"], row["language"], row["bytes"])
            yield position(row["id"]), row["id"], name, candidate


def _step(
    parts: Mapping[str, Corpus], out: Path, index: int, count: int, left_out: Path
) -> MixShard:
    low, high = position_range(index, count)
    shards = {name: part.within(low, high) for name, part in parts.items()}
    made_from = {name: [shard.sha256 for shard in found] for name, found in shards.items()}
    return MixShard(
        name=shard_name(index, count),
        key=digest({"version": VERSION, "from": made_from, "left_out": sha256(left_out)}),
        out=out,
        low=low,
        high=high,
        parts={name: [*map(parts[name].path, found)] for name, found in shards.items()},
        left_out=left_out,
    )
