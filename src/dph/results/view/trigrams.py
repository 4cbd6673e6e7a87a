"""Which pieces of a text can have a word: signatures of the trigrams in each, on disk.

A word can only be where all of its trigrams (three neighbouring bytes) are; a word of two bytes is
looked for as a pair. Every piece of about 4 KB has one bit for each of 4,096 buckets of trigrams
and pairs, an eighth of the text. Bits of one bucket lie side by side, so that a word reads as many
short rows as it has trigrams. Where another trigram of the same bucket is, a piece is named without
need: what is named has to be looked through.

Equation: bucket(t) = floor((2654435761 t mod 2^32) / 2^20), t the trigram as a number of 24 bits, a
pair as one of 25 (multiplicative hashing: Knuth, The Art of Computer Programming 3, section 6.4).
"""

import os
import tempfile
import weakref

import numpy as np
from jaxtyping import Bool, Int, UInt32

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
