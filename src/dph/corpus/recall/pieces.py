"""Pages as sequences of BPE tokens: what the classifier reads instead of words.

Words of a page in Chinese are not set apart by blanks, and names in code are made of several; so
OpenCoder's classifier reads tokens of a byte-level BPE that is learnt from the pages themselves.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dph._base.files import write_text


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
