"""The tokenizer of a base model: one that exists, or a byte-level BPE trained on its corpora."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from dph._base.files import atomic_path, make_directory
from dph.corpus import Corpus
from dph.errors import DataError
from dph.lab.base.recipes import TokenizerSettings
from dph.model.loading import load_tokenizer
from dph.model.new_tokenizer import new_tokenizer

PAD, BEGIN, END = "<|pad|>", "<|begin|>", "<|end|>"
"""The special tokens; a text begins with BEGIN, and END follows a document or an answer."""


def tokenizer_for(
    settings: TokenizerSettings, corpora: Sequence[Corpus], directory: Path
) -> PreTrainedTokenizerBase:
    """The tokenizer of ``settings``; one that is trained is kept in ``directory``.

    Raises:
        ModelError: the one that is named is missing or damaged.
        DataError: the corpora have no text to train one on.
    """
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
    """A byte-level BPE of at most ``vocabulary`` tokens: every text comes back as it was.

    Digits stand alone, as in most models of code. The same texts give the same tokenizer.

    Raises:
        DataError: there is no text.
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
    backend.train_from_iterator(_chain(first, texts), trainer)
    return new_tokenizer(backend, pad=PAD, bos=BEGIN, eos=END)


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _texts(corpora: Sequence[Corpus], most: int) -> Iterator[str]:
    """The first ``most`` bytes of each corpus, a uniform sample of its documents."""
    for corpus in corpora:
        size = 0
        for document in corpus.documents():
            size += document.bytes
            if size > most:
                break
            yield document.text
