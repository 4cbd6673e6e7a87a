"""MinHash signatures of texts, cut into bands of which 64 bits each are kept.

The hashing is rensa's (Rust): at 2,048 hashes several times as fast as the next implementation
(benchmarks/minhash.py). Its estimates follow the binomial law that the bands assume
(tests/corpus/dedup/test_signatures.py).
"""

import hashlib
from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dph.corpus.dedup.presets import Nearness
from dph.corpus.dedup.shingles import shingle_hashes
from dph.errors import SettingsError

BAND_BYTES = 8


def band_digests(texts: Sequence[str], nearness: Nearness) -> list[bytes]:
    """For each text the digests of its bands, one after the other; b'' below 5 words.

    Digests of different bands agree with a probability of 2**-64 a pair.

    Raises:
        SettingsError: rensa is not installed.
    """
    hashes = [shingle_hashes(text) for text in texts]
    if not nearness.bands:
        return [b""] * len(texts)
    rows = _signatures(hashes, nearness)
    return [
        _bands(row, nearness) if len(found) else b""
        for row, found in zip(rows, hashes, strict=True)
    ]


def algorithm_version() -> int:
    """Which signatures rensa makes: other ones must not be compared with these."""
    return int(_rensa().ALGORITHM_VERSION)


def _signatures(hashes: Sequence[NDArray[np.uint64]], nearness: Nearness) -> list[list[int]]:
    ends = np.cumsum([0, *map(len, hashes)]).astype(np.uint64)
    flat = np.concatenate([*hashes, np.empty(0, dtype=np.uint64)])
    matrix = _rensa().digest_matrix_from_flat_token_hashes(
        flat, ends, nearness.hashes, nearness.seed
    )
    rows: list[list[int]] = matrix.to_rows()
    return rows


def _bands(row: Sequence[int], nearness: Nearness) -> bytes:
    data = memoryview(array("I", row).tobytes())
    size = 4 * nearness.rows
    return b"".join(
        hashlib.blake2b(data[start : start + size], digest_size=BAND_BYTES).digest()
        for start in range(0, size * nearness.bands, size)
    )


def _rensa() -> Any:
    try:
        return import_module("rensa").RMinHash
    except ImportError as error:
        raise SettingsError(
            "near-copies are found by rensa, which is not installed: `pip install "
            "'dph-rl[corpus]'`, or choose the preset exact"
        ) from error
