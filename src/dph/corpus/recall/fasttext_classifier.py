"""fastText's classifier (Joulin et al. 2017, arXiv:1607.01759), as floret builds it.

floret is a maintained fork: with it the same lines give the same model. The other wheels that were
tried start from memory that nobody has written to, so that each model is another one and some end
in "Encountered NaN".
"""

from collections.abc import Sequence
from importlib import import_module
from itertools import zip_longest
from pathlib import Path

from dph._base.files import atomic_file

_SEED, _OTHER = "__label__seed", "__label__other"
_DIMENSION, _BUCKETS, _EPOCHS, _RATE = 64, 200_000, 5, 0.5
_STEPS = 20_000
"""Lines that are seen at least; few lines are seen more often than ``_EPOCHS`` times."""
_LONGEST = 1024
"""fastText reads a line up to so many tokens, and takes what follows for another line."""


class FastText:
    """A model that was read from a file."""

    def __init__(self, path: Path) -> None:
        self._model = import_module("floret").load_model(str(path))

    def scores(self, lines: Sequence[str]) -> list[float]:
        """As ``Classifier.scores``; a line without tokens has 0."""
        labels, chances = self._model.predict([_head(line) for line in lines])
        return [
            0.0 if not line else float(chance[0] if label[0] == _SEED else 1 - chance[0])
            for line, label, chance in zip(lines, labels, chances, strict=True)
        ]


def learn_fasttext(seeds: Sequence[str], others: Sequence[str], out: Path, *, seed: int) -> None:
    """Learn from lines of either kind, on one thread, and write the model to ``out``."""
    lines = out.with_suffix(".txt")
    with lines.open("w", encoding="utf-8", newline="\n") as file:
        for pair in zip_longest(seeds, others):  # in turn: the rate falls as lines are read
            for label, line in zip((_SEED, _OTHER), pair, strict=True):
                if line:
                    file.write(f"{label} {_head(line)}\n")
    count = max(1, len(seeds) + len(others))
    model = import_module("floret").train_supervised(
        input=str(lines),
        mode="fasttext",
        dim=_DIMENSION,
        wordNgrams=2,
        bucket=_BUCKETS,
        minCount=1,
        epoch=max(_EPOCHS, -(-_STEPS // count)),
        lr=_RATE,
        seed=seed,
        thread=1,
        verbose=0,
    )
    with atomic_file(out) as temporary:
        model.save_model(str(temporary))
    lines.unlink()


def _head(line: str) -> str:
    return " ".join(line.split(" ", _LONGEST)[:_LONGEST])
