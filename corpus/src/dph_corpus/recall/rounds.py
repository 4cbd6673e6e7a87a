"""The rounds of recall: learn from the seed, score all pages, let missed pages join the seed.

Every round learns anew to tell the seed from as many other pages, scores all pages, and calls a
domain related if more than a share of its pages is recalled. Pages of related domains that match a
pattern which a person has accepted, and that the classifier missed, join the seed of the next.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dph._base.files import atomic_file, make_directory, sha256
from dph.errors import DataError
from dph_corpus.documents import Document, position
from dph_corpus.recall.review import (
    QUANTILES,
    Learnt,
    LearntFiles,
    Patterns,
    Round,
    WebDomain,
    domain_of,
    measure,
    sections,
)
from dph_corpus.recall.work import EXAMPLES, LearnRound, RecallShard, ScoreShard
from dph_corpus.running import run_steps
from dph_corpus.settings import RecallSettings
from dph_corpus.shards import Corpus, digest
from dph_corpus.stage_run import WORK, OnProgress
from dph_corpus.steps import Step
from dph_corpus.tables import TableWriter, read_table

# Examples of one length: a classifier must not learn that seeds are short.
#
# Seeds of a line and pages of a thousand words are told apart by nothing but their length, and
# then no page scores well, however right the ranking is. So both kinds are learnt from in windows
# whose lengths are those of the shorter kind.


class Windows:
    """Cuts examples, one after the other, to the lengths of the shorter of two corpora.

    Args:
        seeds: one kind; its lengths are taken in its order, again and again.
        pages: the other.
        longest: characters that a window never passes.
    """

    def __init__(self, seeds: Corpus, pages: Corpus, *, longest: int) -> None:
        kinds = [lengths for corpus in (seeds, pages) if (lengths := list(_lengths(corpus)))]
        shorter = min(kinds, key=median, default=[longest])
        self._lengths: dict[bool, Iterator[int]] = {kind: cycle(shorter) for kind in (True, False)}
        self._longest = longest

    def cut(self, document: Document, *, seed: bool) -> str:
        """A window of the document's text at a place that its id decides.

        It begins at the first line of that place, else at the first word: seeds begin so too, and
        a classifier would learn to tell windows that do not.
        """
        text, length = document.text, min(max(next(self._lengths[seed]), 1), self._longest)
        if len(text) <= length:
            return text
        start = position(document.id) % (len(text) - length + 1)
        if not start or text[start - 1] == "\n":
            return text[start : start + length]
        if (line := text.find("\n", start, start + length) + 1) and text[line:].strip():
            return text[line : line + length]
        window = text[start : start + length]
        blank = next((place for place, char in enumerate(window) if char.isspace()), 0)
        return window if text[start - 1].isspace() else window[blank:].lstrip()


def division(scores: Sequence[float]) -> float:
    """The score that divides ``scores`` best: those from it on are one group, the others another.

    Equation: the cut that maximises n_1 n_2 (m_1 - m_2)**2, counts n and means m of both groups
    (Otsu, "A threshold selection method from gray-level histograms", IEEE SMC 9, 1979).
    Limits: it does not see the scale of scores. Of groups of very unequal size the larger one is
    divided. Equal scores are not divided, and 1 is returned.

    >>> division([0.01, 0.02, 0.2, 0.22])
    0.2
    """
    ranked = np.sort(np.asarray(scores, dtype=np.float64))
    places = np.flatnonzero(np.diff(ranked)) + 1
    if not len(places):
        return 1.0
    sums = np.cumsum(ranked)
    below, above = sums[places - 1] / places, (sums[-1] - sums[places - 1]) / (len(ranked) - places)
    spread = places * (len(ranked) - places) * (above - below) ** 2
    return float(ranked[places[int(np.argmax(spread))]])


def _lengths(corpus: Corpus) -> Iterator[int]:
    """Bytes of each document, which are about its characters."""
    for shard in corpus.shards:
        for row in read_table(corpus.path(shard), ("bytes",)):
            yield row["bytes"]


@dataclass(frozen=True, slots=True)
class Rounds:
    """All that the rounds need; ``out`` is the stage's directory."""

    pages: Corpus
    seeds: Corpus
    settings: RecallSettings
    patterns: Patterns
    labels: Mapping[str, bool]
    out: Path
    workers: int
    on_progress: OnProgress = field(default=lambda _amount, _note: None)

    def run(self) -> Learnt:
        """Do the rounds; finished parts of them are not done again."""
        joined: frozenset[str] = frozenset()
        scores: Sequence[Path] = ()
        threshold = self.settings.threshold
        rounds: list[Round] = []
        domains: list[WebDomain] = []
        for number in range(1, self.settings.rounds + 1):
            examples, counts = self._examples(number, joined, scores, threshold)
            files = self._learn(number, examples)
            scores = self._score(number, files)
            threshold, told = self._divided(scores)
            of_round = self._domains(number, scores, threshold)
            related = {domain.domain for domain in of_round if domain.related}
            by_url, labelled = self._recalled(scores, related, threshold)
            missed, found = by_url - joined, measure(self.labels, labelled)
            rounds.append(
                Round(
                    round=number,
                    seeds=counts[True],
                    others=counts[False],
                    by_score=sum(domain.recalled for domain in of_round),
                    **told,
                    by_url=len(by_url),
                    related_domains=len(related),
                    joined=len(missed),
                    recall=found.recall,
                    precision=found.precision,
                )
            )
            domains += of_round
            if not missed:
                break
            joined |= missed
        found_sections = sections(_pages_of(scores, related, threshold))
        return Learnt(files, scores, sorted(related), found_sections, rounds, domains)

    def cut(self, learnt: Learnt) -> list[dict[str, Any]]:
        """Write the pages that are kept and dropped, by the scores of the last round.

        Returns:
            What ``shard_work.write_shard`` says of each shard.
        """
        chosen = {"related": list(learnt.related), "patterns": list(self.patterns.texts)}
        steps = [
            RecallShard(
                name=shard.name,
                key=digest(
                    {"settings": self.settings.json(), "shard": shard.sha256, **chosen}
                    | {"scores": sha256(scores)}
                ),
                out=self.out,
                input=self.pages.path(shard),
                scores=scores,
                threshold=learnt.threshold,
                **chosen,
            )
            for shard, scores in zip(self.pages.shards, learnt.scores, strict=True)
        ]
        return self._run(steps, self.on_progress)

    def _examples(
        self, number: int, joined: AbstractSet[str], scores: Sequence[Path], threshold: float
    ) -> tuple[Path, Counter[bool]]:
        path = make_directory(self._work / f"round-{number}") / "examples.parquet"
        most, counts = self.settings.examples, Counter[bool]()
        windows = Windows(self.seeds, self.pages, longest=self.settings.characters)
        with atomic_file(path) as temporary, TableWriter(temporary, EXAMPLES) as table:

            def write(document: Document, *, seed: bool) -> None:
                text = windows.cut(document, seed=seed)
                table.write({"seed": seed, "text": text}, size=len(text))
                counts[seed] += 1

            for document in self.seeds.documents():
                if counts[True] + len(joined) >= most:
                    break
                write(document, seed=True)
            wanted = min(most, counts[True] + len(joined))
            for page, score in self._scored(scores):
                if page.id in joined and counts[True] < most:
                    write(page, seed=True)
                elif page.id not in joined and score < threshold:
                    if counts[False] < wanted:
                        write(page, seed=False)
                    elif counts[True] >= wanted:
                        break
        for kind, name in ((True, "seed"), (False, "page that is not recalled already")):
            if not counts[kind]:
                raise DataError(f"round {number} of recall has no {name} to learn from")
        return path, counts

    def _scored(self, scores: Sequence[Path]) -> Iterator[tuple[Document, float]]:
        """All pages with their scores of the round before; 0 before the first."""
        if not scores:
            yield from ((page, 0.0) for page in self.pages.documents())
            return
        for page, row in zip(self.pages.documents(), _rows(scores), strict=True):
            yield page, row["score"]

    def _learn(self, number: int, examples: Path) -> LearntFiles:
        directory = examples.parent
        step = LearnRound(
            name=f"learn-{number}",
            key=digest({"settings": self.settings.json(), "examples": sha256(examples)}),
            settings=self.settings,
            examples=examples,
            learnt=LearntFiles(directory / "pieces.json", directory / "classifier"),
        )
        self._run([step], lambda _amount, _note: None)
        return step.learnt

    def _score(self, number: int, learnt: LearntFiles) -> list[Path]:
        digests = learnt.digests()
        steps = [
            ScoreShard(
                name=f"score-{number}-{shard.name}",
                key=digest({"learnt": digests, "shard": shard.sha256}),
                settings=self.settings,
                round=number,
                learnt=learnt,
                input=self.pages.path(shard),
                out=self._work / f"round-{number}" / "scores" / shard.name,
            )
            for shard in self.pages.shards
        ]
        self._run(steps, self.on_progress)
        return [step.out for step in steps]

    @property
    def _work(self) -> Path:
        return self.out / WORK

    def _run(self, steps: Sequence[Step], on_progress: OnProgress) -> list[dict[str, Any]]:
        notes = self._work / "done"
        return run_steps(steps, notes, workers=self.workers, on_progress=on_progress)

    def _divided(self, scores: Sequence[Path]) -> tuple[float, dict[str, Any]]:
        """The threshold of a round, and what its record says of the scores."""
        values = np.array([row["score"] for row in _rows(scores)], dtype=np.float64)
        cut = division(values.tolist())
        threshold = cut if self.settings.divide else self.settings.threshold
        return threshold, {
            "quantiles": {f"{q:g}": float(np.quantile(values, q)) for q in QUANTILES},
            "threshold": threshold,
            "division": cut,
            "divided": int(np.count_nonzero(values >= cut)),
        }

    def _domains(self, number: int, scores: Sequence[Path], threshold: float) -> list[WebDomain]:
        pages, recalled, known = Counter[str](), Counter[str](), set[str]()
        for row in _rows(scores):
            domain = domain_of(row["url"])
            pages[domain] += 1
            recalled[domain] += row["score"] >= threshold
            if row["id"] in self.labels:
                known.add(row["id"])
        if strange := sorted(set(self.labels) - known):
            raise DataError(f"{len(strange)} labelled ids are not pages, first {strange[0]!r}")
        least = self.settings.domain_share
        return [
            WebDomain(
                round=number,
                domain=domain,
                pages=count,
                recalled=recalled[domain],
                related=bool(domain) and recalled[domain] > least * count,
            )
            for domain, count in sorted(pages.items())
        ]

    def _recalled(
        self, scores: Sequence[Path], related: AbstractSet[str], threshold: float
    ) -> tuple[frozenset[str], frozenset[str]]:
        """The pages that only their URL recalls, and the labelled ones that anything recalls."""
        by_url, labelled = set[str](), set[str]()
        for row in _rows(scores):
            scored = row["score"] >= threshold
            known = domain_of(row["url"]) in related
            if not scored and known and self.patterns.matches(row["url"]):
                by_url.add(row["id"])
            if row["id"] in self.labels and (scored or row["id"] in by_url):
                labelled.add(row["id"])
        return frozenset(by_url), frozenset(labelled)


def _pages_of(
    scores: Sequence[Path], related: AbstractSet[str], threshold: float
) -> Iterator[tuple[str, str, bool]]:
    for row in _rows(scores):
        if (domain := domain_of(row["url"])) in related:
            yield domain, row["url"], row["score"] >= threshold


def _rows(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield from read_table(path)
