"""A corpus as token ids on disk: a file a shard, made once and mapped into memory."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from dph._base.files import atomic_path, make_directory
from dph.corpus import Corpus
from dph.corpus.shards import digest
from dph.corpus.tables import read_documents
from dph.errors import DataError
from dph.model.fingerprint import tokenizer_fingerprint

Tokens = NDArray[np.uint32]
_BATCH = 64
"""Documents that are encoded at a time."""


def corpus_tokens(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    directory: Path,
    *,
    most: int,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> list[Tokens]:
    """The documents' ids, shard by shard, each document followed by the end-of-sequence token.

    Shards are taken in order until they have ``most`` tokens. A file names the shard and the
    tokenizer that it was made from, so a kill costs one shard and no file is taken for another.

    Raises:
        DataError: a shard cannot be read, or there is no document.
    """
    make_directory(directory)
    made_with = tokenizer_fingerprint(tokenizer)
    found: list[Tokens] = []
    for shard in corpus.shards:
        if sum(map(len, found)) >= most:
            break
        key = digest([shard.sha256, made_with])[:32]
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
    texts: list[str] = []
    end = tokenizer.eos_token_id
    for document in read_documents(shard):
        texts.append(document.text)
        if len(texts) == _BATCH:
            yield _ids(texts, tokenizer, end)
            texts = []
    if texts:
        yield _ids(texts, tokenizer, end)


def _ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, end: int) -> Tokens:
    encoded = tokenizer(list(texts))["input_ids"]
    return np.array([token for ids in encoded for token in (*ids, end)], dtype=np.uint32)
