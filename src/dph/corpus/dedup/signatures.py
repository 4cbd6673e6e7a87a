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
from dph.corpus.dedup.shingles import shingle_hashes_of
from dph.errors import SettingsError

BAND_BYTES = 8


def band_digests(texts: Sequence[str], nearness: Nearness) -> list[bytes]:
    """For each text the digests of its bands, one after the other; b'' below 5 words.

    Digests of different bands agree with a probability of 2**-64 a pair.

    Raises:
        SettingsError: rensa is not installed.
    """
    found = [b""] * len(texts)
    if not nearness.bands:
        return found
    for alike in (True, False):  # a text that is not ASCII would slow those beside it down
        chosen = [place for place, text in enumerate(texts) if text.isascii() is alike]
        hashes, counts = shingle_hashes_of([texts[place] for place in chosen])
        for place, row, count in zip(
            chosen, _signatures(hashes, counts, nearness), counts, strict=True
        ):
            if count:
                found[place] = _bands(row, nearness)
    return found


def algorithm_version() -> int:
    """Which signatures rensa makes: other ones must not be compared with these."""
    return int(_rensa().ALGORITHM_VERSION)


def _signatures(
    hashes: NDArray[np.uint64], counts: NDArray[np.intp], nearness: Nearness
) -> list[list[int]]:
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    matrix = _rensa().digest_matrix_from_flat_token_hashes(
        hashes, ends, nearness.hashes, nearness.seed
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
