"""Work for ``recall``: learn the classifier of a round, score a shard, cut it."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from dph._base.files import make_directory
from dph_corpus.documents import Document
from dph_corpus.recall.classifier import Classifier, learn_classifier, learn_pieces, load_pieces
from dph_corpus.recall.review import LearntFiles, Patterns, domain_of
from dph_corpus.settings import RecallSettings
from dph_corpus.shard_work import ShardStep, TableStep, write_shard
from dph_corpus.stage import DocumentOutcome, Drop
from dph_corpus.steps import Care, Step
from dph_corpus.tables import read_documents, read_table, schema_of

# The last step of recall: which pages are kept, by what the last round has scored.

SCORE, URL = "score", "url"
"""By what a page is kept."""
TABLE = schema_of("recalled")
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


EXAMPLES = schema_of("examples")
"""Pages that a round learns from."""
SCORES = schema_of("scores")
"""Score of each page of a shard in a round, in its order."""
_TOGETHER = 64
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRound(Step):
    """Learns the BPE and the classifier of a round from a table of ``EXAMPLES``."""

    settings: RecallSettings
    examples: Path
    learnt: LearntFiles

    @property
    def files(self) -> Mapping[str, Path]:
        """BPE and classifier."""
        return {"pieces": self.learnt.pieces, "classifier": self.learnt.classifier}

    def do(self, care: Care) -> dict[str, Any]:
        """Learn and write both."""
        care.announce("")
        pieces = learn_pieces(
            (row["text"] for row in read_table(self.examples, ("text",))),
            vocabulary=self.settings.vocabulary,
            characters=self.settings.characters,
        )
        lines: dict[bool, list[str]] = {True: [], False: []}
        for rows in _batches(read_table(self.examples)):
            found = pieces.lines([row["text"] for row in rows])
            for row, line in zip(rows, found, strict=True):
                lines[row["seed"]].append(line)
        make_directory(self.learnt.pieces.parent)
        pieces.save(self.learnt.pieces)
        files, seed = self.learnt, self.settings.seed
        learn_classifier(lines[True], lines[False], files.classifier, seed=seed)
        return {"files": self.learnt.digests()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreShard(TableStep):
    """Writes the scores of a shard."""

    label = "scores"
    schema = SCORES
    settings: RecallSettings
    round: int
    learnt: LearntFiles
    input: Path

    @property
    def title(self) -> str:
        """The round."""
        return f"round {self.round}"

    def rows(self, care: Care) -> Iterator[Mapping[str, Any]]:
        """The score of every page."""
        pieces = load_pieces(self.learnt.pieces, characters=self.settings.characters)
        classifier = Classifier(self.learnt.classifier)
        for pages in _batches(read_documents(self.input)):
            care.announce("")
            values = classifier.scores(pieces.lines([page.text for page in pages]))
            for page, value in zip(pages, values, strict=True):
                yield {"id": page.id, "url": page.url, "score": value}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallShard(ShardStep):
    """Writes the pages of a shard that stay, and those that do not, by their scores."""

    tables: Sequence[str] = ("scores",)
    input: Path
    scores: Path
    related: Sequence[str]
    patterns: Sequence[str]
    threshold: float

    def do(self, care: Care) -> dict[str, Any]:
        """Keep or drop each page."""
        care.announce("")
        recalled = Recalled(frozenset(self.related), Patterns(self.patterns), self.threshold)
        scores = read_table(self.scores, ("id", "score"))
        outcomes = (
            (page, recalled(page, row["score"]))
            for page, row in zip(read_documents(self.input), scores, strict=True)
        )
        return write_shard(outcomes, "recall", self.out, self.name, tables={"scores": TABLE})


def _batches(found: Iterator[_T]) -> Iterator[list[_T]]:
    while batch := list(islice(found, _TOGETHER)):
        yield batch
