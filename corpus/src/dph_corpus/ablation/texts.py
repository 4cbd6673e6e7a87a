"""Token sequences of an ablation: what the arms are learnt from, and held-out code."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from dph._base.files import write_json
from dph.errors import DataError
from dph.model.loading import load_tokenizer
from dph_corpus import Corpus, DocType
from dph_corpus.ablation.settings import AblationSettings
from dph_corpus.base.recipes import TokenizerSettings
from dph_corpus.base.tokens import Blocks, Curriculum, corpus_tokens, tokenizer_for

ALL_CODE = "code"
"""Held-out text of every programming language."""
CORPUS = "corpus"
"""Name in `dph base` of the mixture of its constant rate: both models learn the same sequences."""


@dataclass(frozen=True, slots=True)
class Heldout:
    """Sequences of held-out text of one language, or of all code.

    Args:
        sequences: token ids, (sequences, context).
        documents: files that they were cut from.
        repeated: files left out because the raw pool has the same text.
        bytes_per_token: of those files.
    """

    sequences: NDArray[np.int64]
    documents: int
    repeated: int
    bytes_per_token: float

    def facts(self) -> dict[str, float]:
        """Its size as JSON."""
        return {
            "documents": self.documents,
            "repeated": self.repeated,
            "tokens": self.sequences.size,
            "bytes_per_token": self.bytes_per_token,
        }


def shared_tokenizer(
    pool: Corpus, directory: Path, settings: AblationSettings
) -> PreTrainedTokenizerBase:
    """The tokenizer of all arms, trained on raw text: if it favours an arm, then that one."""
    chosen = TokenizerSettings(vocabulary=settings.vocabulary)
    place = directory / f"tokenizer-{settings.vocabulary}-{pool.manifest.content[:16]}"
    trained = tokenizer_for(chosen, [pool], place)
    # A recipe takes the tokenizer of a saved model: a config stands beside it, without weights.
    write_json(place / "config.json", {"model_type": "llama", "vocab_size": len(trained)})
    return load_tokenizer(place)


def learnt_sequences(
    pool: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    directory: Path,
    settings: AblationSettings,
    seed: int,
) -> tuple[NDArray[np.int64], int]:
    """The sequences that a seed draws of a pool, and the tokens of the pool.

    A pool with fewer tokens than are learnt is passed over again, as it would be in training.
    """
    most = settings.sequences * settings.context
    tokens = corpus_tokens(pool, tokenizer, directory / CORPUS, most=most)
    curriculum = Curriculum([(Blocks(tokens, settings.context, seed, CORPUS), settings.sequences)])
    ids = [curriculum[index]["input_ids"].numpy() for index in range(len(curriculum))]
    return np.stack(ids), sum(map(len, tokens))


def heldout_sequences(
    source: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    settings: AblationSettings,
    known: Collection[str],
) -> Mapping[str, Heldout]:
    """The first texts of ``source``, by the order of a corpus, that are not ``known``.

    Args:
        source: code of other repositories than the pools'.
        tokenizer: that of the arms.
        settings: how much; each of its ``heldout_languages`` gets an equal share of the tokens.
        known: SHA-256 of the texts of the raw pool.

    Returns:
        By language, or by ``code`` for all code where no language is named.

    Raises:
        DataError: a language does not fill one sequence.
    """
    languages = settings.heldout_languages or (settings.language or ALL_CODE,)
    most = settings.heldout_tokens // len(languages)
    return {
        name: _heldout(source, tokenizer, settings.context, most, name, known) for name in languages
    }


def _heldout(
    source: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    context: int,
    most: int,
    language: str,
    known: Collection[str],
) -> Heldout:
    ids: list[int] = []
    documents, repeated, size = 0, 0, 0
    for document in source.documents():
        of_code = language == ALL_CODE and document.doc_type == DocType.CODE
        if not of_code and document.language != language:
            continue
        if document.sha256 in known:
            repeated += 1
            continue
        ids += [*tokenizer(document.text)["input_ids"], tokenizer.eos_token_id]
        documents, size = documents + 1, size + document.bytes
        if len(ids) >= most:
            break
    count = min(len(ids), most) // context
    if not count:
        named = "code" if language == ALL_CODE else f"the language {language}"
        raise DataError(
            f"{source.directory} has {documents} files of {named} that are not in the corpus, "
            f"{len(ids)} tokens: too few for one sequence of {context}"
        )
    kept = np.array(ids[: count * context], dtype=np.int64)
    return Heldout(kept.reshape(count, -1), documents, repeated, size / len(ids))
