"""MinHash signatures of real files: bytes a second of processor time, ours and two others'.

    pip install datasketch datatrove "xxhash<4"
    python -m benchmarks.minhash FILES.jsonl [--bands 16 --rows 128] [--megabytes 8]

Every side turns the same texts into the digests of its bands' MinHashes, word 5-grams included, in
one process on one thread; sides take turns, the best of ``--repeats`` counts, and a file read for
warming up does not. datasketch gets words by the same regular expression; datatrove its own
shingles and signatures, with that regular expression in place of spaCy.
"""

import argparse
import hashlib
import importlib.metadata
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dph.corpus.dedup.signatures import band_digests
from dph.corpus.settings import Nearness

_LONGEST = 50_000
WORD = re.compile(r"\w+")
Side = Callable[[Sequence[str]], object]


def ours(nearness: Nearness) -> Side:
    """This package, 64 texts at a time as a worker takes them."""

    def run(texts: Sequence[str]) -> object:
        return [band_digests(texts[at : at + 64], nearness) for at in range(0, len(texts), 64)]

    return run


def datasketch_side(nearness: Nearness) -> Side:
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

    return lambda texts: [one(text) for text in texts]


def datatrove_side(nearness: Nearness) -> Side:
    """``MinhashDedupSignature``: its shingles and its signatures, without its files."""
    from datatrove.pipeline.dedup import minhash  # noqa: PLC0415 - one side may be missing

    class Words:
        def word_tokenize(self, text: str) -> list[str]:
            return WORD.findall(text)

    minhash.load_word_tokenizer = lambda _language: Words()
    step = minhash.MinhashDedupSignature(
        "/nowhere",
        config=minhash.MinhashConfig(
            n_grams=5, num_buckets=nearness.bands, hashes_per_bucket=nearness.rows
        ),
    )

    def run(texts: Sequence[str]) -> object:
        shingled = (step.get_shingles(text) for text in texts)
        return [step.get_signature(shingles) for shingles in shingled if shingles.size]

    return run


SIDES = {"ours": ours, "datasketch": datasketch_side, "datatrove": datatrove_side}


def main() -> None:
    """Measure and print a row for each side, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, help="JSON lines with a text each")
    parser.add_argument("--bands", type=int, default=16)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--megabytes", type=float, default=8, help="of text for all sides")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    nearness = Nearness(bands=arguments.bands, rows=arguments.rows)
    with arguments.files.open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    few = _first(texts, arguments.megabytes * 1e6)
    sides = {name: make(nearness) for name, make in SIDES.items()}
    rates: dict[str, list[float]] = {name: [] for name in (*sides, "ours, all texts")}
    for side in sides.values():
        side(texts[:5])
    for _ in range(arguments.repeats):
        for name, side in sides.items():
            begun = time.process_time()
            side(few)
            rates[name].append(_size(few) / 1e6 / (time.process_time() - begun))
        begun = time.process_time()
        sides["ours"](texts)
        rates["ours, all texts"].append(_size(texts) / 1e6 / (time.process_time() - begun))
    for name, found in rates.items():
        version = importlib.metadata.version("rensa" if name.startswith("ours") else name)
        row = {"side": name, "version": version, "hashes": nearness.hashes}
        row |= {"mb_per_cpu_second": round(max(found), 2)}
        print(json.dumps(row | {"range": [round(min(found), 2), round(max(found), 2)]}))


def _size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def _first(texts: Sequence[str], size: float) -> list[str]:
    """Every n-th of the texts up to 50 kB, so that they weigh about ``size`` bytes.

    datatrove holds 16 kB for each shingle of a text at 2,048 hashes.
    """
    short = [text for text in texts if len(text) <= _LONGEST]
    return short[:: max(1, round(_size(short) / size))]


if __name__ == "__main__":
    main()
