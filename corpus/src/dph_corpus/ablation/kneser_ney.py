"""Interpolated Kneser-Ney: the n-gram model that an ablation measures with.

Source: Kneser and Ney, "Improved backing-off for m-gram language modeling" (1995); interpolated,
with one discount an order, as in Chen and Goodman, "An empirical study of smoothing techniques for
language modeling" (1999), sections 2.7 and 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from dph.model.loading import load_model
from dph.recipe.section import checked
from dph.runs.progress import ProgressDisplay
from dph_corpus import Corpus
from dph_corpus.ablation.settings import AblationSettings
from dph_corpus.base.base import train_base
from dph_corpus.base.recipes import BaseRecipe

# The small transformer of an ablation: trained as `dph base` trains, measured on held-out code.

_TOGETHER = 16


def transformer_bits(
    pool: Corpus,
    tokenizer: Path,
    heldout: Mapping[str, NDArray[np.int64]],
    settings: AblationSettings,
    seed: int,
    directory: Path,
    tokens: Path,
    progress: ProgressDisplay,
    *,
    annealed: bool = False,
) -> dict[str, float]:
    """Mean bits a held-out token, by language, of a transformer that learnt ``pool``."""
    recipe = recipe_of(pool, tokenizer, settings, seed, name=directory.name, annealed=annealed)
    path = train_base(recipe, directory, progress, replace=True, tokens=tokens)
    model = load_model(path, device="cpu")
    return {name: _mean_bits(model, sequences) for name, sequences in heldout.items()}


def _mean_bits(model: PreTrainedModel, sequences: NDArray[np.int64]) -> float:
    bits: list[float] = []
    with torch.inference_mode():
        for begin in range(0, len(sequences), _TOGETHER):
            ids = torch.from_numpy(sequences[begin : begin + _TOGETHER])
            logits = model(input_ids=ids).logits[:, :-1].float()
            losses = torch.nn.functional.cross_entropy(
                logits.transpose(1, 2), ids[:, 1:], reduction="none"
            )
            bits += (losses / np.log(2)).flatten().tolist()
    return float(np.mean(bits))


_ANNEALED, _FINAL = 5, 30
"""A fifth of the steps are annealing; the rate falls to a thirtieth, as OpenCoder's."""


def recipe_of(
    pool: Corpus,
    tokenizer: Path,
    settings: AblationSettings,
    seed: int,
    *,
    name: str,
    annealed: bool = False,
) -> BaseRecipe:
    """The recipe of `dph base`: constant rate after a tenth of the steps, one thread.

    ``annealed``: the same sequences, but the rate falls in the last fifth of the steps.
    """
    falling = settings.steps // _ANNEALED if annealed else 0
    table: dict[str, Any] = {
        "kind": "base",
        "name": name,
        "seed": seed,
        "data": {"corpus": str(pool.directory.resolve())},
        "tokenizer": {"path": str(tokenizer.resolve())},
        "model": {
            "width": settings.width,
            "inner": 8 * settings.width // 3,
            "layers": settings.layers,
            "heads": settings.heads,
        },
        "train": {
            "learning_rate": settings.learning_rate,
            "warmup_steps": settings.steps // 10,
            "final_rate": settings.learning_rate / _FINAL,
            "steps": settings.steps - falling,
            "annealing_steps": falling,
            "context": settings.context,
            "sequences_per_step": settings.sequences_per_step,
            "sequences_at_once": settings.sequences_per_step,
            "checkpoint_every": settings.steps,
        },
        "device": {"device": "cpu", "threads": 1},
    }
    return checked(BaseRecipe, table, beside=Path(), place="the ablation's transformer")


Tokens = NDArray[np.int64]
"""(sequences, tokens): nothing is learnt or asked across the border of a sequence."""

_NO_SINGLES = 0.5


@dataclass(frozen=True, slots=True)
class _Order:
    """Counts of n-grams of one length, all arrays sorted by key.

    ``counts`` of the n-grams, and for each of their histories the sum of counts and the number of
    different tokens behind it.
    """

    grams: NDArray[np.uint64]
    counts: NDArray[np.int64]
    histories: NDArray[np.uint64]
    totals: NDArray[np.int64]
    followers: NDArray[np.int64]
    discount: float


@dataclass(frozen=True, slots=True)
class KneserNey:
    """A model of token sequences.

    Equation: p_n(w | h) = max(c(hw) - D_n, 0) / c(h) + D_n t(h) / c(h) p_(n-1)(w | h'), with
    t(h) the different tokens seen after h, h' the history without its first token, and c for all
    but the longest n-grams the number of different tokens seen before them (continuations). Below
    the unigrams stands 1 / vocabulary. D_n = n_1 / (n_1 + 2 n_2) of the counts of counts, 1/2 if
    nothing was counted once.
    Limits: a history that was never seen takes no weight: p_n = p_(n-1).
    """

    orders: tuple[_Order, ...]
    vocabulary: int

    @classmethod
    def learn(cls, tokens: Tokens, *, order: int, vocabulary: int) -> Self:
        """Count ``tokens``.

        Raises:
            ValueError: n-grams of that order and vocabulary do not fit 64 bits.
        """
        if vocabulary**order > 2**64:
            raise ValueError(f"{order}-grams of {vocabulary} tokens do not fit 64 bits")
        found: list[_Order] = []
        grams, counts = np.unique(_grams(tokens, order, vocabulary), return_counts=True)
        for length in range(order, 0, -1):
            found.append(_order(grams, counts.astype(np.int64), vocabulary))
            if length > 1:  # continuations: in how many different n-grams it is the end
                ends = grams % np.uint64(vocabulary ** (length - 1))
                grams, counts = np.unique(ends, return_counts=True)
        return cls(tuple(reversed(found)), vocabulary)

    def bits(self, tokens: Tokens) -> NDArray[np.float64]:
        """-log2 p of every token but the first of each sequence: (sequences, tokens - 1)."""
        probabilities = np.full(tokens.shape, 1 / self.vocabulary)
        for length, order in enumerate(self.orders, 1):
            keys = _grams(tokens, length, self.vocabulary).reshape(len(tokens), -1)
            behind = probabilities[:, length - 1 :]
            probabilities[:, length - 1 :] = _interpolated(order, keys, behind, self.vocabulary)
        bits: NDArray[np.float64] = -np.log2(probabilities[:, 1:])
        return bits


def _grams(tokens: Tokens, length: int, vocabulary: int) -> NDArray[np.uint64]:
    """The keys of all n-grams within the sequences, row by row."""
    wide = tokens.astype(np.uint64)
    count = tokens.shape[1] - length + 1
    keys = np.zeros((len(tokens), count), dtype=np.uint64)
    for place in range(length):
        keys = keys * np.uint64(vocabulary) + wide[:, place : place + count]
    return keys.ravel()


def _order(grams: NDArray[np.uint64], counts: NDArray[np.int64], vocabulary: int) -> _Order:
    histories, first, followers = np.unique(
        grams // np.uint64(vocabulary), return_index=True, return_counts=True
    )
    totals = np.add.reduceat(counts, first)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    discount = once / (once + 2 * twice) if once else _NO_SINGLES
    return _Order(grams, counts, histories, totals, followers.astype(np.int64), discount)


def _interpolated(
    order: _Order, keys: NDArray[np.uint64], behind: NDArray[np.float64], vocabulary: int
) -> NDArray[np.float64]:
    counts = _looked_up(order.grams, order.counts, keys)
    history = keys // np.uint64(vocabulary)
    totals = _looked_up(order.histories, order.totals, history)
    followers = _looked_up(order.histories, order.followers, history)
    seen = np.maximum(counts - order.discount, 0.0) + order.discount * followers * behind
    return np.where(totals > 0, seen / np.maximum(totals, 1), behind)


def _looked_up(
    keys: NDArray[np.uint64], values: NDArray[np.int64], wanted: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The values of ``wanted``, 0 where there is none."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: NDArray[np.int64] = np.where(keys[places] == wanted, values[places], 0)
    return found
