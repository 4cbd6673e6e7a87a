"""A corpus as token ids on disk: a file a shard, made once and mapped into memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from dph._base.files import atomic_path, make_directory
from dph._base.randomness import generator
from dph.errors import DataError
from dph.model.loading import load_tokenizer, new_tokenizer
from dph.model.policies import tokenizer_fingerprint
from dph_corpus import Corpus
from dph_corpus.base.recipes import TokenizerSettings
from dph_corpus.shards import digest
from dph_corpus.tables import read_documents

# The tokenizer of a base model: one that exists, or a byte-level BPE trained on its corpora.

PAD, BEGIN, END = "<|pad|>", "<|begin|>", "<|end|>"
"""The special tokens; a text begins with BEGIN, and END follows a document or an answer."""


def tokenizer_for(
    settings: TokenizerSettings, corpora: Sequence[Corpus], directory: Path
) -> PreTrainedTokenizerBase:
    """The tokenizer of ``settings``; one that is trained is kept in ``directory``."""
    if settings.path is not None:
        return load_tokenizer(settings.path)
    if not directory.exists():
        texts = _texts(corpora, settings.megabytes * 1_000_000)
        trained = train_tokenizer(texts, vocabulary=settings.vocabulary)
        make_directory(directory.parent)
        with atomic_path(directory) as temporary:
            trained.save_pretrained(temporary)
    return PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)


def train_tokenizer(texts: Iterator[str], *, vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of at most ``vocabulary`` tokens: every text is decoded unchanged.

    Digits stand alone, as in most models of code. The same texts give the same tokenizer.
    """
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, BEGIN, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    first = next(texts, None)
    if first is None:
        raise DataError("there is no text to train a tokenizer on")
    backend.train_from_iterator(chain([first], texts), trainer)
    return new_tokenizer(backend, pad=PAD, bos=BEGIN, eos=END)


def _texts(corpora: Sequence[Corpus], most: int) -> Iterator[str]:
    """The first ``most`` bytes of each corpus, a uniform sample of its documents."""
    for corpus in corpora:
        size = 0
        for document in corpus.documents():
            size += document.bytes
            if size > most:
                break
            yield document.text


# Packed sequences: tokens of documents one behind the other, cut into blocks of one length.


@dataclass(frozen=True)
class Blocks:
    """The blocks of one mixture, in a random order that differs from pass to pass.

    A block may hold the end of one document and the beginning of the next, which see each other, as
    is usual in pre-training. The last tokens of a shard that fill no block are left out.
    """

    shards: Sequence[NDArray[np.uint32]]
    length: int
    seed: int
    name: str

    def __post_init__(self) -> None:
        if not len(self):
            tokens = sum(map(len, self.shards))
            raise DataError(
                f"the {self.name} has {tokens} tokens, too few for one sequence of {self.length}"
            )

    def __len__(self) -> int:
        return sum(len(shard) // self.length for shard in self.shards)

    def order(self, turn: int) -> NDArray[np.int64]:
        """The blocks' order in a pass over them."""
        return generator(self.seed, "blocks", self.name, turn).permutation(len(self))

    def read(self, index: int) -> NDArray[np.int64]:
        """The token ids of a block."""
        for shard in self.shards:
            blocks = len(shard) // self.length
            if index < blocks:
                return shard[index * self.length : (index + 1) * self.length].astype(np.int64)
            index -= blocks
        raise IndexError(index)


class Curriculum(Dataset[dict[str, torch.Tensor]]):
    """Every sequence of a training run in the order it is learnt: one mixture, then the next.

    A mixture that is shorter than its part is passed over again, in another order. Sequence i
    depends on i alone, so a run that goes on reads on where it stopped.

    Args:
        parts: mixtures with how many sequences each gives.
    """

    def __init__(self, parts: Sequence[tuple[Blocks, int]]) -> None:
        self._parts = [(blocks, count) for blocks, count in parts if count]
        self._orders: dict[tuple[int, int], NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return sum(count for _, count in self._parts)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """A sequence as a model of transformers takes it; every token is a target."""
        for number, (blocks, count) in enumerate(self._parts):
            if index < count:
                turn, place = divmod(index, len(blocks))
                if (number, turn) not in self._orders:
                    self._orders = {(number, turn): blocks.order(turn)}
                ids = torch.from_numpy(blocks.read(int(self._orders[number, turn][place])))
                return {"input_ids": ids, "labels": ids}
            index -= count
        raise IndexError(index)


Tokens = NDArray[np.uint32]
_BATCH = 64
"""Documents that are encoded at a time."""
_VERSION = 2
"""Counts up when the same documents and tokenizer give other ids."""


def corpus_tokens(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    directory: Path,
    *,
    most: int,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> list[Tokens]:
    """The documents' ids, shard by shard, each document followed by the end-of-sequence token.

    Special tokens that a text spells out are encoded as text.

    Shards are taken in order until they have ``most`` tokens. A file names the shard and the
    tokenizer that it was made from, so a kill costs one shard and no file is taken for another.
    """
    make_directory(directory)
    made_with = tokenizer_fingerprint(tokenizer)
    found: list[Tokens] = []
    for shard in corpus.shards:
        if sum(map(len, found)) >= most:
            break
        key = digest([_VERSION, shard.sha256, made_with])[:32]
        path = directory / f"{shard.name}.{key}.npy"
        if not path.is_file():
            ids = [*_encoded(corpus.path(shard), tokenizer)]
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.save(file, np.concatenate([np.empty(0, np.uint32), *ids]))
        found.append(np.load(path, mmap_mode="r"))
        on_progress(1, f"{sum(map(len, found))} tokens")
    if not sum(map(len, found)):
        raise DataError(f"{corpus.directory} has no documents to learn from")
    return found


def _encoded(shard: Path, tokenizer: PreTrainedTokenizerBase) -> Iterator[Tokens]:
    documents, end = read_documents(shard), tokenizer.eos_token_id
    while batch := list(islice(documents, _BATCH)):
        texts = [document.text for document in batch]
        encoded = tokenizer(texts, split_special_tokens=True)["input_ids"]
        yield np.array([token for ids in encoded for token in (*ids, end)], dtype=np.uint32)
