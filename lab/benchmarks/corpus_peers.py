"""Throughput of the stages of a corpus: bytes a second of processor time, ours and others'.

    pip install datasketch datatrove "xxhash<4"
    python -m lab.benchmarks.corpus_peers FILES.jsonl [--tasks exact,minhash,filter] [--megabytes 3]

Every side takes the same texts in one process on one thread; sides take turns, the best of
``--repeats`` counts, and a few files that warm up do not.

exact: a digest of every text and the first of each. minhash: the digests of bands of MinHashes over
word 5-grams. filter: the verdict on every Python file, ours by OpenCoder's rules, which parse it,
datatrove's by Gopher's quality and repetition rules, which are for prose. datasketch and datatrove
get words by one regular expression, in place of spaCy.
"""

import argparse
import hashlib
import importlib.metadata
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dph_corpus.dedup.signatures import band_digests
from dph_corpus.documents import Document
from dph_corpus.ingest.reading import row_documents
from dph_corpus.rules.stage import FilterStage
from dph_corpus.settings import Nearness

_LONGEST = 50_000
WORD = re.compile(r"\w+")
Side = Callable[[Sequence[Document]], object]


class Words:
    """Words as of our own MinHashes, in the place of datatrove's tokenizer."""

    def word_tokenize(self, text: str) -> list[str]:
        """The words of a text."""
        return WORD.findall(text)


# Copies: who has the same text.


def our_exact() -> Side:
    """The digest that ingestion gives a document, and the first document of each."""

    def run(documents: Sequence[Document]) -> object:
        first: dict[bytes, str] = {}
        for document in documents:
            first.setdefault(hashlib.sha256(document.text.encode()).digest(), document.id)
        return first

    return run


def datatrove_exact() -> Side:
    """``ExactDedupSignature`` without its files: hashes and their order."""
    from datatrove.data import Document as Theirs  # noqa: PLC0415 - one side may be missing
    from datatrove.pipeline.dedup.exact_dedup import (  # noqa: PLC0415
        ExactDedupConfig,
        ExactDedupSignature,
    )

    def content(document: Theirs) -> str:
        return str(document.text)

    step = ExactDedupSignature("/nowhere", ExactDedupConfig(content_getter=content))

    def run(documents: Sequence[Document]) -> object:
        return sorted(
            row
            for number, one in enumerate(documents)
            for row in step.get_hashes(Theirs(text=one.text, id=one.id), number)
        )

    return run


# Near copies: the digests of bands of MinHashes.


def our_minhash(nearness: Nearness) -> Side:
    """This package, 64 texts at a time as a worker takes them."""

    def run(documents: Sequence[Document]) -> object:
        texts = [document.text for document in documents]
        return [band_digests(texts[at : at + 64], nearness) for at in range(0, len(texts), 64)]

    return run


def datasketch_minhash(nearness: Nearness) -> Side:
    """``MinHash.update_batch`` over the set of shingles, and its bands as bytes."""
    from datasketch import MinHash  # noqa: PLC0415 - one side may be missing

    blank = MinHash(num_perm=nearness.hashes, seed=nearness.seed)

    def one(text: str) -> list[bytes]:
        words = WORD.findall(text)
        shingles = {" ".join(words[at : at + 5]).encode() for at in range(len(words) - 4)}
        signature = blank.copy()
        signature.update_batch(shingles)
        data = signature.hashvalues.reshape(nearness.bands, nearness.rows)
        return [hashlib.blake2b(band.tobytes(), digest_size=8).digest() for band in data]

    return lambda documents: [one(document.text) for document in documents]


def datatrove_minhash(nearness: Nearness) -> Side:
    """``MinhashDedupSignature``: its shingles and its signatures, without its files."""
    from datatrove.pipeline.dedup import minhash  # noqa: PLC0415 - one side may be missing

    minhash.load_word_tokenizer = lambda _language: Words()
    step = minhash.MinhashDedupSignature(
        "/nowhere",
        config=minhash.MinhashConfig(
            n_grams=5, num_buckets=nearness.bands, hashes_per_bucket=nearness.rows
        ),
    )

    def run(documents: Sequence[Document]) -> object:
        shingled = (step.get_shingles(document.text) for document in documents)
        return [step.get_signature(shingles) for shingles in shingled if shingles.size]

    return run


# Verdicts on quality.


def our_filter() -> Side:
    """The whole verdict: every signal of OpenCoder's rules for the file's kind."""
    stage = FilterStage("opencoder")
    return lambda documents: [stage(document).drops for document in documents]


def datatrove_filter() -> Side:
    """Gopher's quality and repetition rules, each of which ends at its first fault."""
    from datatrove.data import Document as Theirs  # noqa: PLC0415 - one side may be missing
    from datatrove.pipeline.filters import (  # noqa: PLC0415
        gopher_quality_filter,
        gopher_repetition_filter,
    )

    for module in (gopher_quality_filter, gopher_repetition_filter):
        module.split_into_words = lambda text, _language: WORD.findall(text)
    rules = [
        gopher_quality_filter.GopherQualityFilter(),
        gopher_repetition_filter.GopherRepetitionFilter(),
    ]

    def run(documents: Sequence[Document]) -> object:
        theirs = [Theirs(text=one.text, id=one.id) for one in documents if WORD.search(one.text)]
        return [[rule.filter(document) for rule in rules] for document in theirs]

    return run


def sides_of(task: str, nearness: Nearness) -> Mapping[str, Side]:
    """The sides of a task; the first is ours."""
    if task == "exact":
        return {"ours": our_exact(), "datatrove": datatrove_exact()}
    if task == "filter":
        return {"ours": our_filter(), "datatrove": datatrove_filter()}
    return {
        "ours": our_minhash(nearness),
        "datasketch": datasketch_minhash(nearness),
        "datatrove": datatrove_minhash(nearness),
    }


def rows_of(
    task: str, documents: Sequence[Document], nearness: Nearness, *, megabytes: float, repeats: int
) -> Iterator[dict[str, object]]:
    """A row for each side of a task on some of the documents, and of ours on all of them."""
    if task == "filter":
        documents = [document for document in documents if document.language == "python"]
    sides = dict(sides_of(task, nearness))
    few = _first(documents, megabytes * 1e6) if task == "minhash" else documents
    given = {name: (side, few) for name, side in sides.items()}
    if task == "minhash":
        given["ours, all texts"] = sides["ours"], documents
    rates: dict[str, list[float]] = {name: [] for name in given}
    for side in sides.values():
        side(documents[:5])
    for _ in range(repeats):
        for name, (side, some) in given.items():
            begun = time.process_time()
            side(some)
            rates[name].append(_size(some) / 1e6 / (time.process_time() - begun))
    for name, found in rates.items():
        package = "dph-rl" if name.startswith("ours") else name
        yield {
            "task": task,
            "side": name,
            "version": importlib.metadata.version(package),
            "megabytes": round(_size(given[name][1]) / 1e6, 1),
            "mb_per_cpu_second": round(max(found), 2),
            "range": [round(min(found), 2), round(max(found), 2)],
        }


def main() -> None:
    """Measure and print a row for each side, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, help="JSON lines with an id and a text each")
    parser.add_argument("--tasks", default="exact,minhash,filter")
    parser.add_argument("--bands", type=int, default=16)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--megabytes", type=float, default=3, help="of text for minhash")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    nearness = Nearness(bands=arguments.bands, rows=arguments.rows)
    read = row_documents(arguments.files, "files", {}, {"path": "id"})
    documents = [document for document in read if isinstance(document, Document)]
    for task in arguments.tasks.split(","):
        for row in rows_of(
            task,
            documents,
            nearness,
            megabytes=arguments.megabytes,
            repeats=arguments.repeats,
        ):
            print(json.dumps(row))


def _size(documents: Sequence[Document]) -> int:
    return sum(document.bytes for document in documents)


def _first(documents: Sequence[Document], size: float) -> list[Document]:
    """Every n-th of the documents up to 50 kB, so that they weigh about ``size`` bytes.

    datatrove holds 16 kB for each shingle of a text at 2,048 hashes.
    """
    short = [document for document in documents if document.bytes <= _LONGEST]
    return short[:: max(1, round(_size(short) / size))]


if __name__ == "__main__":
    main()
