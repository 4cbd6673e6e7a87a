"""Texts to search in, one or many for each problem, in a file without a name.

Signatures of trigrams tell which pieces of the file can have a word (``trigrams``); those are
looked through at a gigabyte a second and more. Only where the pieces end is kept in memory.
"""

import json
import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Int, UInt32

from dph.errors import DataError
from dph.results.view.set_index import ProblemQuery, SetIndex
from dph.tasks.problems import prompt_text

# Which pieces of a text can have a word: signatures of the trigrams in each, on disk.
#
# A word can only be where all of its trigrams (three neighbouring bytes) are; a word of two bytes
# is looked for as a pair. Every piece of about 4 KB has one bit for each of 4,096 buckets of
# trigrams and pairs, an eighth of the text. Bits of one bucket lie side by side, so that a word
# reads as many short rows as it has trigrams. Where another trigram of the same bucket is, a
# piece is named without need: what is named has to be looked through.
#
# Equation: bucket(t) = floor((2654435761 t mod 2^32) / 2^20), t the trigram as a number of 24
# bits, a pair as one of 25 (multiplicative hashing: Knuth, The Art of Computer Programming 3,
# section 6.4).

_BUCKETS = 4096
_FACTOR = np.uint32(2654435761)
_SHIFT = np.uint32(20)
_PIECE = 4096
"""Bytes after which a piece ends with its text."""
_PIECES = 2048
"""Pieces whose bits are written together."""


class Trigrams:
    """Signatures of texts that are added in order; a text is never in two pieces.

    ``ends`` are the bytes at which the pieces end. What was added last is there after ``flush``.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - requests may still look into it
        weakref.finalize(self, self._file.close)
        self._ends: list[int] = []
        self._piece: list[bytes] = []
        self._size = 0
        self._bits: np.ndarray | None = None
        self._written: list[tuple[int, int]] = []
        self.ends: Int[np.ndarray, pieces] = np.zeros(0, dtype=np.int64)

    def add(self, text: bytes) -> None:
        """Add the next text."""
        self._piece.append(text)
        self._size += len(text)
        if self._size >= _PIECE:
            self._end_piece()

    def flush(self) -> None:
        """Let what was added be found; nothing is added afterwards."""
        if self._piece:
            self._end_piece()
        self._write()
        self._file.flush()
        self.ends = np.array(self._ends, dtype=np.int64)

    def pieces(self, word: bytes) -> Bool[np.ndarray, "pieces"]:
        """Those that can have the word: every one that has it, and few others."""
        buckets = np.unique(_trigrams(word) if len(word) > 2 else _pairs(word)).tolist()
        if not buckets:
            return np.ones(len(self.ends), dtype=bool)
        found = [np.zeros(0, dtype=bool)]
        at = 0
        for count, width in self._written:
            rows = (self._row(at + bucket * width, width) for bucket in buckets)
            bits = np.bitwise_and.reduce(list(rows))
            found.append(np.unpackbits(bits, count=count).astype(bool))
            at += _BUCKETS * width
        return np.concatenate(found)

    def _row(self, at: int, width: int) -> np.ndarray:
        return np.frombuffer(os.pread(self._file.fileno(), width, at), dtype=np.uint8)

    def _end_piece(self) -> None:
        if self._bits is None:
            self._bits = np.zeros((_PIECES, _BUCKETS), dtype=bool)
        pending = len(self._ends) - sum(count for count, _ in self._written)
        text = b"".join(self._piece)
        self._bits[pending, _trigrams(text)] = True
        self._bits[pending, _pairs(text)] = True
        self._ends.append((self._ends[-1] if self._ends else 0) + self._size)
        self._piece, self._size = [], 0
        if pending + 1 == _PIECES:
            self._write()

    def _write(self) -> None:
        pending = len(self._ends) - sum(count for count, _ in self._written)
        if self._bits is None or not pending:
            return
        packed = np.packbits(self._bits[:pending].T, axis=1)
        self._file.write(packed.tobytes())
        self._written.append((pending, packed.shape[1]))
        self._bits = None


def _trigrams(text: bytes) -> Int[np.ndarray, "trigrams"]:
    """The bucket of every three neighbouring bytes."""
    data = _numbers(text)
    return _buckets(data[:-2] | (data[1:-1] << np.uint32(8)) | (data[2:] << np.uint32(16)))


def _pairs(text: bytes) -> Int[np.ndarray, "pairs"]:
    """The bucket of every two neighbouring bytes."""
    data = _numbers(text)
    return _buckets(data[:-1] | (data[1:] << np.uint32(8)) | np.uint32(1 << 24))


def _numbers(text: bytes) -> UInt32[np.ndarray, "bytes"]:
    return np.frombuffer(text, dtype=np.uint8).astype(np.uint32)


def _buckets(numbers: UInt32[np.ndarray, "numbers"]) -> Int[np.ndarray, "numbers"]:
    return ((numbers * _FACTOR) >> _SHIFT).astype(np.intp)


_BLOCK = 8 * 2**20
"""Bytes that are looked through at once."""
_BETWEEN = b"\xff"
"""Ends a text: no byte of UTF-8, so no word reaches from one text into the next."""


class Haystack:
    """Texts in small letters, by problem; problems are added in order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - requests may still look through it
        weakref.finalize(self, self._file.close)
        self._ends: list[int] = []
        self._trigrams = Trigrams()

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, texts: Iterable[str]) -> None:
        """The texts of the next problem, each once."""
        end = self._ends[-1] if self._ends else 0
        for text in dict.fromkeys(texts):
            data = _small(text) + _BETWEEN
            self._file.write(data)
            self._trigrams.add(data)
            end += len(data)
        self._ends.append(end)

    def flush(self) -> None:
        """Let what was added be found; nothing is added afterwards."""
        self._file.flush()
        self._trigrams.flush()

    def having(
        self, word: str, known: Bool[np.ndarray, "problems"] | None = None
    ) -> Bool[np.ndarray, "problems"]:
        """Problems that have a text with ``word`` in it, in letters of any size.

        Of those that are ``known`` to have it somewhere else nothing is said: they may be left out.
        """
        wanted = _small(word)
        found = np.zeros(len(self._ends), dtype=bool)
        if not wanted:
            return found
        pieces = self._trigrams.pieces(wanted)
        if known is not None:
            pieces &= self._asked(~known)
        for start, end in _blocks(pieces, self._trigrams.ends):
            block = os.pread(self._file.fileno(), end - start, start)
            found[list(self._places(block, start, wanted))] = True
        return found

    def _asked(self, problems: Bool[np.ndarray, "problems"]) -> Bool[np.ndarray, "pieces"]:
        """The pieces that hold a text of one of the problems."""
        ends = self._trigrams.ends
        starts = np.concatenate([[0], ends[:-1]])
        before = np.concatenate([[0], np.cumsum(problems)])
        first = np.searchsorted(self._ends, starts, side="right")
        last = np.searchsorted(self._ends, ends, side="left")
        return np.asarray(before[last + 1] > before[first])

    def _places(self, block: bytes, start: int, word: bytes) -> Iterator[int]:
        """The problems of a block that have the word: after a hit the next problem is looked at."""
        at = block.find(word)
        while at >= 0:
            place = bisect_right(self._ends, start + at)
            yield place
            at = block.find(word, self._ends[place] - start)


def _blocks(
    pieces: Bool[np.ndarray, "pieces"], ends: Int[np.ndarray, "pieces"]
) -> Iterator[tuple[int, int]]:
    """First byte and end of the parts to read: neighbouring pieces together, up to a size."""
    chosen = np.flatnonzero(pieces)
    starts = np.concatenate([[0], ends])[chosen].tolist()
    start = end = -1
    for first, last in zip(starts, ends[chosen].tolist(), strict=True):
        if first != end or last - start > _BLOCK:
            if end > start:
                yield start, end
            start = first
        end = last
    if end > start:
        yield start, end


def _small(text: str) -> bytes:
    return text.lower().encode("utf-8", errors="surrogatepass")


# The texts of a snapshot to search in: questions at once, answers as they are read.

_BATCH = 8192


class Texts:
    """Texts to search; ``read`` of ``parts`` files of answers have been read."""

    def __init__(self, sets: Mapping[str, SetIndex], samples: Mapping[str, Path]) -> None:
        self._sets, self._samples = sets, samples
        self._questions = {name: _questions(of) for name, of in sets.items()}
        self._answers: dict[tuple[str, str], Haystack] = {}
        self.read, self.parts = 0, len(samples)
        self._found = lru_cache(maxsize=64)(self._look)

    def read_answers(self) -> Iterator[None]:
        """Read the answers of one run after the other, a piece at each step.

        Raises:
            DataError: a file is damaged.
        """
        for key, path in self._samples.items():
            stacks: dict[str, Haystack] = {}
            yield from _read(path, stacks)
            for name, stack in stacks.items():
                stack.flush()
                self._answers[name, key] = stack
            self.read += 1

    def having(self, query: ProblemQuery) -> Bool[np.ndarray, "problems"] | None:
        """The problems that have every word of a query; None where nothing is looked for."""
        if not query.words:
            return None
        read = self.read if query.answers else 0
        found = (self._found(query.set, word.lower(), query.answers, read) for word in query.words)
        return np.asarray(np.logical_and.reduce(list(found)))

    def _look(
        self, name: str, word: str, answers: bool, _read: int
    ) -> Bool[np.ndarray, "problems"]:
        found = self._questions[name].having(word)
        if not answers:
            return found
        for key, run in self._sets[name].runs.items():
            stack = self._answers.get((name, key))
            if stack is not None:
                there = run.at >= 0
                known = np.zeros(len(stack), dtype=bool)
                known[run.at[there]] = found[there]
                found = found | (there & stack.having(word, known)[run.at])
        return found


def _questions(of: SetIndex) -> Haystack:
    """Ids, prompts, and the fields of problems, the gold answer among them."""
    stack = Haystack()
    for problem_id in of.ids:
        problem = of.problems.get(problem_id)
        texts = [problem_id]
        if problem is not None:
            texts.append(prompt_text(problem))
            texts += [v if isinstance(v, str) else json.dumps(v) for v in problem.answer.values()]
        stack.add(texts)
    stack.flush()
    return stack


def _read(path: Path, stacks: dict[str, Haystack]) -> Iterator[None]:
    """Put the texts of a file into a stack for each set, a problem's answers together."""
    problem: tuple[str, str] | None = None
    texts: list[str] = []
    try:
        columns = ["set", "problem_id", "text"]
        for batch in pq.ParquetFile(path).iter_batches(_BATCH, columns=columns):
            for row in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True):
                if problem != row[:2]:
                    if problem is not None:
                        stacks.setdefault(problem[0], Haystack()).add(texts)
                    problem, texts = row[:2], []
                texts.append(row[2])
            yield
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if problem is not None:
        stacks.setdefault(problem[0], Haystack()).add(texts)
