"""Small corpora, and stages for them that tests can name by import path."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dph._base.files import make_directory, sha256, write_json
from dph_corpus.documents import ContentDigest, Document, position
from dph_corpus.shards import (
    DROPPED,
    KEPT,
    MANIFEST,
    CorpusManifest,
    Flow,
    Shard,
    open_corpus,
    shard_name,
    shard_of,
)
from dph_corpus.stage import DocumentOutcome, Drop
from dph_corpus.steps import Step
from dph_corpus.tables import DocumentWriter, read_table

GOOD = """\
def largest_prime_factor(number):
    factor, largest = 2, 1
    while factor * factor <= number:
        if number % factor == 0:
            largest = factor
            number //= factor
        else:
            factor += 1
    if number > largest:
        return number
    return largest


for line in open_input("numbers"):
    show(largest_prime_factor(int(line.strip())))
"""
"""A file of Python that every preset keeps."""


def small_corpus(directory, documents, *, shards=1):
    """A corpus of ``documents``, in any order, cut into ``shards``."""
    ordered = sorted(documents, key=lambda document: (position(document.id), document.id))
    content, made = ContentDigest(), []
    make_directory(directory / KEPT)
    for index in range(shards):
        name = shard_name(index, shards)
        path = directory / KEPT / name
        with DocumentWriter(path) as writer:
            for document in ordered:
                if shard_of(document.id, shards) == index:
                    writer.write(document)
                    content.add(document)
        made.append(Shard(name, writer.rows, writer.bytes, sha256(path)))
    manifest = CorpusManifest("test", made, content.hex(), [{"stage": "test"}], Flow())
    write_json(directory / MANIFEST, manifest.json())
    return open_corpus(directory)


def rows_file(path, rows):
    """``path`` with a line of JSON for each row."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def bytes_of(directory):
    """The SHA-256 of each file that a stage leaves for others."""
    return {
        str(path.relative_to(directory)): sha256(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not str(path.relative_to(directory)).startswith(".")
    }


def dropped(corpus):
    """The rows of what a stage dropped, by id."""
    files = [corpus.directory / DROPPED / shard.name for shard in corpus.shards]
    return {row["id"]: row for path in files for row in read_table(path)}


def numbered(count, text="text {}\n"):
    """``count`` documents, d0, d1, ..., each of its own text."""
    return [Document.of(text.format(n), id=f"d{n}", path=f"{n}.txt") for n in range(count)]


class Slow:
    """Takes a third of a second over each document."""

    tables: dict[str, pa.Schema] = {}  # noqa: RUF012

    def __init__(self, settings):
        pass

    def __call__(self, document):
        time.sleep(0.3)
        return DocumentOutcome(document.with_text(document.text.upper()))


class Lengths:
    """Drops documents longer than a limit, and upper-cases the others."""

    tables = {"lengths": pa.schema([("id", pa.string()), ("length", pa.int64())])}  # noqa: RUF012

    def __init__(self, settings):
        self._longest = settings["longest"]

    def __call__(self, document):
        length = len(document.text)
        rows = {"lengths": [{"id": document.id, "length": length}]}
        if "sleep" in document.text:
            time.sleep(60)
        if "die" in document.text:
            os._exit(3)
        if "raise" in document.text:
            raise ArithmeticError(document.id)
        if length > self._longest:
            drop = Drop("long", value=float(length), threshold=f"> {self._longest}")
            return DocumentOutcome(None, [drop], rows, {"characters": length})
        return DocumentOutcome(
            document.with_text(document.text.upper()), (), rows, {"characters": length}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteWord(Step):
    """A step that writes a word to a file, or fails as the word says."""

    path: Path
    word: str

    @property
    def files(self):
        return {"text": self.path}

    def do(self, care):
        care.announce("")
        if self.word == "raise":
            raise ArithmeticError("bad")
        if self.word == "die":
            os._exit(3)
        self.path.write_text(self.word)
        return {"word": self.word, "files": {"text": sha256(self.path)}}
