"""Work for ``recall``: learn the classifier of a round, score a shard, cut it."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from dph._base.files import atomic_file, make_directory, sha256
from dph._processes.workers.handler import Handler, TellStage
from dph.corpus.documents import Document
from dph.corpus.recall.classifier import (
    Classifier,
    Pieces,
    learn_classifier,
    learn_pieces,
    load_classifier,
    load_pieces,
)
from dph.corpus.recall.review import Patterns, domain_of
from dph.corpus.shard_work import write_shard
from dph.corpus.stage import DocumentOutcome, Drop
from dph.corpus.tables import TableWriter, read_documents, read_table
from dph.errors import DataError

# The last step of recall: which pages are kept, by what the last round has scored.

SCORE, URL = "score", "url"
"""By what a page is kept."""
TABLE = pa.schema([("id", pa.string()), ("score", pa.float64()), ("by", pa.string())])
"""``scores.parquet``: every page; ``by`` is '' for those that go."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Keeps pages that score well, and those of related domains that match a pattern."""

    related: Set[str]
    patterns: Patterns
    threshold: float

    def __call__(self, document: Document, score: float) -> DocumentOutcome:
        """Keep the page, or drop it with its score."""
        by = self._by(document, score)
        rows = {"scores": [{"id": document.id, "score": score, "by": by}]}
        if by:
            return DocumentOutcome(document, (), rows, {f"by {by}": 1})
        drop = Drop(SCORE, value=score, threshold=f"< {self.threshold:g}")
        return DocumentOutcome(None, [drop], rows)

    def _by(self, document: Document, score: float) -> str:
        if score >= self.threshold:
            return SCORE
        known = domain_of(document.url) in self.related
        return URL if known and self.patterns.matches(document.url) else ""


EXAMPLES = pa.schema([("seed", pa.bool_()), ("text", pa.string())])
"""What a round learns from."""
SCORES = pa.schema([("id", pa.string()), ("url", pa.string()), ("score", pa.float64())])
"""What a round says of each page of a shard, in its order."""
_TOGETHER = 64
_T = TypeVar("_T")


class Scorer:
    """A learnt BPE and classifier."""

    def __init__(self, pieces: Pieces, classifier: Classifier) -> None:
        self._pieces, self._classifier = pieces, classifier

    def __call__(self, texts: Sequence[str]) -> list[float]:
        """The scores of texts, each whatever the others are."""
        return self._classifier.scores(self._pieces.lines(texts))


def load_scorer(kind: str, pieces: Path, classifier: Path, *, characters: int) -> Scorer:
    """The scorer that ``learn`` wrote."""
    return Scorer(load_pieces(pieces, characters=characters), load_classifier(kind, classifier))


def make_handler(options: Mapping[str, Any]) -> Handler:
    """The handler of a worker; a request names its ``step``."""

    def handle(request: Any, announce: TellStage) -> Any:
        announce("")
        match request["step"]:
            case "learn":
                return learn(request, options)
            case "score":
                return score(request, options, lambda: announce(""))
            case "cut":
                return cut(request, options)
            case step:
                raise DataError(f"there is no step {step!r}")

    return handle


def learn(request: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Learn BPE and classifier from a table of ``EXAMPLES``, and write both."""
    examples = Path(request["examples"])
    pieces_path, classifier_path = Path(request["pieces"]), Path(request["classifier"])
    pieces = learn_pieces(
        (row["text"] for row in read_table(examples, ("text",))),
        vocabulary=settings["vocabulary"],
        characters=settings["characters"],
    )
    lines: dict[bool, list[str]] = {True: [], False: []}
    for rows in _batches(read_table(examples)):
        found = pieces.lines([row["text"] for row in rows])
        for row, line in zip(rows, found, strict=True):
            lines[row["seed"]].append(line)
    make_directory(pieces_path.parent)
    pieces.save(pieces_path)
    learn_classifier(
        settings["classifier"], lines[True], lines[False], classifier_path, seed=settings["seed"]
    )
    return {"files": {"pieces": sha256(pieces_path), "classifier": sha256(classifier_path)}}


def score(
    request: Mapping[str, Any], settings: Mapping[str, Any], announce: Callable[[], object]
) -> dict[str, Any]:
    """Write the scores of a shard; ``announce`` is called now and then."""
    scorer = load_scorer(
        settings["classifier"],
        Path(request["pieces"]),
        Path(request["classifier"]),
        characters=settings["characters"],
    )
    out = Path(request["out"])
    make_directory(out.parent)
    with atomic_file(out) as temporary, TableWriter(temporary, SCORES) as table:
        for pages in _batches(read_documents(Path(request["input"]))):
            announce()
            for page, value in zip(pages, scorer([page.text for page in pages]), strict=True):
                table.write({"id": page.id, "url": page.url, "score": value})
    return {"files": {"scores": sha256(out)}}


def cut(request: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write the pages of a shard that stay, and those that do not, by their scores."""
    recalled = Recalled(
        frozenset(request["related"]), Patterns(request["patterns"]), settings["threshold"]
    )
    scores = read_table(Path(request["scores"]), ("id", "score"))
    outcomes = (
        (page, recalled(page, row["score"]))
        for page, row in zip(read_documents(Path(request["input"])), scores, strict=True)
    )
    out, name = Path(request["out"]), request["name"]
    return write_shard(outcomes, "recall", out, name, tables={"scores": TABLE})


def _batches(found: Iterator[_T]) -> Iterator[list[_T]]:
    while batch := list(islice(found, _TOGETHER)):
        yield batch
