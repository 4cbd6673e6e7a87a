"""A corpus as token ids, in the files that other trainers read.

Each shard becomes the files of one name: ``part-00000-of-00004.bin`` and ``.idx`` for Megatron,
``.ds``, ``.ds.index`` and ``.ds.metadata`` for datatrove and nanotron. ``manifest.json`` is written
last.

Source: ``megatron/core/datasets/indexed_dataset.py`` of Megatron-LM, and
``datatrove/pipeline/tokens/tokenizer.py``, whose readers take these files.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from dph._base.files import atomic_file, make_directory, read_json, sha256, write_json
from dph.errors import DataError, SettingsError
from dph_corpus import remote
from dph_corpus.running import run_steps
from dph_corpus.shards import MANIFEST, Corpus, digest
from dph_corpus.stage_run import OnProgress, require_other_directory, sole_writer
from dph_corpus.steps import Care, Step
from dph_corpus.tables import read_documents

VERSION = 1
"""Counts up when the same documents and tokenizer give other files."""
_BATCH = 64
"""Documents that are encoded at a time."""
_NARROW = 65_500
"""Ids below it take 2 bytes each, as in Megatron; others take 4."""

Lengths = NDArray[np.int64]
"""Tokens of each document, in order."""


# The formats: the file of the ids, and the files that say where documents begin and end.


@dataclass(frozen=True, slots=True)
class TokenFormat:
    """Files of a format: the end of the name of the ids, and of each other file with its content.

    A content is made of the lengths of the documents, the bytes of an id, and the tokenizer's name.
    """

    ids: str
    others: Mapping[str, Callable[[Lengths, int, str], bytes]]


def _megatron_index(lengths: Lengths, width: int, _name: str) -> bytes:
    """Each document is one sequence, so document n begins with sequence n."""
    count = len(lengths)
    code = 8 if width == 2 else 4  # numpy's uint16 and int32, as Megatron numbers them
    begins = (np.cumsum(lengths) - lengths) * width
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, count, count + 1)
    numbers = (lengths.astype("<i4"), begins.astype("<i8"), np.arange(count + 1, dtype="<i8"))
    return head + b"".join(each.tobytes() for each in numbers)


def _ends(lengths: Lengths, _width: int, _name: str) -> bytes:
    return np.cumsum(lengths).astype("<u8").tobytes()


def _datatrove_facts(lengths: Lengths, width: int, name: str) -> bytes:
    return f"{name}|{width}\n{lengths.sum()}\n{lengths.sum() / 1e6:.3g} MT".encode()


FORMATS: Mapping[str, TokenFormat] = {
    "megatron": TokenFormat(".bin", {".idx": _megatron_index}),
    "datatrove": TokenFormat(".ds", {".ds.index": _ends, ".ds.metadata": _datatrove_facts}),
}


# The tokenizer: the file that the library of that name writes, and the token behind a document.


def _end_token(directory: Path) -> str:
    """The end-of-sequence token that a saved tokenizer names."""
    config = directory / "tokenizer_config.json"
    found = read_json(config).get("eos_token") if config.is_file() else None
    found = found.get("content") if isinstance(found, dict) else found
    if not isinstance(found, str):
        raise DataError(f"{directory} names no eos_token; name the token after a document, --end")
    return found


@lru_cache(maxsize=1)
def _tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file. Special tokens that a text spells out are encoded as text."""
    try:
        found = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises this very class
        raise DataError(f"cannot read the tokenizer {path}: {error}") from error
    found.no_truncation()
    found.no_padding()
    found.encode_special_tokens = True
    return found


@dataclass(frozen=True, slots=True)
class Encoding:
    """Encoding of documents: the tokenizer's file, the id after each, bytes of an id, format."""

    tokenizer: Path
    end: int
    width: int
    format: str

    @classmethod
    def of(cls, directory: Path, form: str, end: str | None) -> "Encoding":
        """The encoding by the tokenizer in ``directory``; ``end`` is by default its eos_token."""
        if form not in FORMATS:
            raise SettingsError(f"format must be one of {', '.join(FORMATS)}, got {form!r}")
        place = directory / "tokenizer.json"
        vocabulary = _tokenizer(place).get_vocab(with_added_tokens=True)
        end = _end_token(directory) if end is None else end
        if end not in vocabulary:
            raise DataError(f"{place} has no token {end!r}")
        width = 2 if max(vocabulary.values()) < _NARROW else 4
        return cls(place, vocabulary[end], width, form)

    def facts(self) -> dict[str, Any]:
        """All that files depend on apart from the documents, as JSON; no place."""
        return {
            "version": VERSION,
            "format": self.format,
            "tokenizer": {"name": self.tokenizer.parent.name, "sha256": sha256(self.tokenizer)},
            "end": self.end,
            "bytes_per_token": self.width,
        }


# Shards in workers.


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShard(Step):
    """Writes the ids of a shard's documents, each followed by the end, as the files of a format."""

    input: Path
    out: Path
    encoding: Encoding

    @property
    def files(self) -> Mapping[str, Path]:
        """The files of the format, by the ends of their names."""
        of = FORMATS[self.encoding.format]
        stem = self.name.removesuffix(".parquet")
        return {ending: self.out / f"{stem}{ending}" for ending in (of.ids, *of.others)}

    def do(self, care: Care) -> dict[str, Any]:
        """Write the files, the ids first."""
        width, name = self.encoding.width, self.encoding.tokenizer.parent.name
        of, lengths = FORMATS[self.encoding.format], list[int]()
        make_directory(self.out)
        with atomic_file(self.files[of.ids]) as temporary, temporary.open("wb") as file:
            for ids in self._ids(care):
                file.write(np.array(ids, dtype=f"<u{width}").tobytes())
                lengths.append(len(ids))
        counts = np.array(lengths, dtype=np.int64)
        for ending, content in of.others.items():
            with atomic_file(self.files[ending]) as temporary:
                temporary.write_bytes(content(counts, width, name))
        return {
            "documents": len(lengths),
            "tokens": int(counts.sum()),
            "files": {ending: sha256(path) for ending, path in self.files.items()},
        }

    def _ids(self, care: Care) -> Iterator[Sequence[int]]:
        tokenizer = _tokenizer(self.encoding.tokenizer)
        documents = read_documents(self.input)
        while batch := list(islice(documents, _BATCH)):
            care.announce(batch[0].id)
            texts = [document.text for document in batch]
            for encoded in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
                yield [*encoded.ids, self.encoding.end]


def tokenize(
    source: Corpus,
    out: Path,
    *,
    tokenizer: Path,
    form: str,
    end: str | None = None,
    workers: int = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Mapping[str, Any]:
    """Write the token ids of a corpus in a format of other trainers.

    The same documents and tokenizer make the same bytes, whatever the workers and however often it
    was killed. Documents are in the order of the corpus, which is by hash: they need no shuffling.

    Returns:
        The content of ``manifest.json``.
    """
    encoding = Encoding.of(tokenizer, form, end)
    require_other_directory(out, source)
    facts = encoding.facts()
    with sole_writer(out):
        steps = [
            TokenShard(
                name=shard.name,
                key=digest([facts, shard.sha256]),
                input=source.path(shard),
                out=out,
                encoding=encoding,
            )
            for shard in source.shards
        ]
        answers = run_steps(
            steps,
            out / ".done",
            workers=workers,
            on_begin=lambda: remote.removed(out / MANIFEST),
            on_progress=on_progress,
        )
        _remove_others(out, steps)
        manifest = facts | {
            **{name: sum(each[name] for each in answers) for name in ("documents", "tokens")},
            "history": [*source.manifest.history],
            "content": source.manifest.content,
            "shards": [
                {"name": step.name.removesuffix(".parquet"), **answer}
                for step, answer in zip(steps, answers, strict=True)
            ],
        }
        write_json(out / MANIFEST, manifest)
        remote.sent(out / MANIFEST)
    return manifest


def _remove_others(out: Path, steps: Sequence[TokenShard]) -> None:
    """Remove the files of shards that were here before."""
    written = {path.name for step in steps for path in step.files.values()}
    endings = tuple(name for of in FORMATS.values() for name in (of.ids, *of.others))
    for name in remote.names(out) - written:
        if name.startswith("part-") and name.endswith(endings):
            remote.removed(out / name)
