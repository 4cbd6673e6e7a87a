"""The classifier of pages: how much a sequence of tokens looks like the seed.

It is learnt from lines of tokens (``Pieces``), is written to one file, and gives the same scores
again when it is read. It depends on the lines, their order and the seed alone.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import zip_longest
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dph._base.files import atomic_file, write_text

# Pages as sequences of BPE tokens: what the classifier reads instead of words.
#
# Words of a page in Chinese are not set apart by blanks, and names in code are made of several;
# so OpenCoder's classifier reads tokens of a byte-level BPE that is learnt from the pages
# themselves.


class Pieces:
    """A learnt BPE; ``lines`` is what classifiers are given."""

    def __init__(self, tokenizer: Tokenizer, characters: int) -> None:
        self._tokenizer, self._characters = tokenizer, characters

    def lines(self, texts: Sequence[str]) -> list[str]:
        """For each text the tokens of its head as their numbers, with blanks between them."""
        heads = [text[: self._characters] for text in texts]
        found = self._tokenizer.encode_batch_fast(heads)
        return [" ".join(map(str, one.ids)) for one in found]

    def save(self, path: Path) -> None:
        """Write the tokenizer, as tokenizers writes it."""
        write_text(path, self._tokenizer.to_str())


def learn_pieces(texts: Iterable[str], *, vocabulary: int, characters: int) -> Pieces:
    """Learn a byte-level BPE of at most ``vocabulary`` tokens from the heads of ``texts``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text[:characters] for text in texts), trainer)
    return Pieces(tokenizer, characters)


def load_pieces(path: Path, *, characters: int) -> Pieces:
    """The BPE that ``save`` wrote."""
    return Pieces(Tokenizer.from_file(str(path)), characters)


# fastText's classifier (Joulin et al. 2017, arXiv:1607.01759), as floret builds it.
#
# floret is a maintained fork: with it the same lines give the same model. The other wheels that
# were tried start from memory that nobody has written to, so that each model is another one and
# some end in "Encountered NaN".

_SEED, _OTHER = "__label__seed", "__label__other"
_DIMENSION, _BUCKETS, _EPOCHS, _RATE = 64, 200_000, 5, 0.5
_STEPS = 20_000
"""Lines that are seen at least; few lines are seen more often than ``_EPOCHS`` times."""
_LONGEST = 1024
"""fastText reads a line up to so many tokens, and takes what follows for another line."""


class Classifier:
    """A model that was read from a file."""

    def __init__(self, path: Path) -> None:
        self._model = import_module("floret").load_model(str(path))

    def scores(self, lines: Sequence[str]) -> list[float]:
        """For each line the probability that it is one of the seed; 0 without tokens."""
        labels, chances = self._model.predict([_head(line) for line in lines])
        return [
            0.0 if not line else float(chance[0] if label[0] == _SEED else 1 - chance[0])
            for line, label, chance in zip(lines, labels, chances, strict=True)
        ]


def learn_classifier(seeds: Sequence[str], others: Sequence[str], out: Path, *, seed: int) -> None:
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
