"""Classifiers of pages: how much a sequence of tokens looks like the seed.

A classifier is learnt from lines of tokens (``pieces``), is written to one file, and gives the same
scores again when it is read. Both kinds depend on the lines, their order and the seed alone.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from dph.corpus.recall.fasttext_classifier import FastText, learn_fasttext
from dph.corpus.recall.linear_classifier import Linear, learn_linear
from dph.corpus.recall.learnt import FASTTEXT, LINEAR


class Classifier(Protocol):
    """A learnt classifier."""

    def scores(self, lines: Sequence[str]) -> list[float]:
        """For each line the probability that it is one of the seed, both kinds being as many."""
        ...


class _Kind(NamedTuple):
    learn: Callable[..., None]
    load: Callable[[Path], Classifier]
    package: Mapping[str, str]


_KINDS: Mapping[str, _Kind] = {
    FASTTEXT: _Kind(learn_fasttext, FastText, {"floret": "floret"}),
    LINEAR: _Kind(learn_linear, Linear, {"sklearn": "scikit-learn"}),
}


def learn_classifier(
    kind: str, seeds: Sequence[str], others: Sequence[str], out: Path, *, seed: int
) -> None:
    """Learn a classifier of ``kind`` that tells lines of seeds from others, and write it."""
    _KINDS[kind].learn(seeds, others, out, seed=seed)


def load_classifier(kind: str, path: Path) -> Classifier:
    """The classifier that ``learn_classifier`` wrote."""
    return _KINDS[kind].load(path)


def packages_of(kind: str) -> Mapping[str, str]:
    """What has to be installed for it, by module."""
    return _KINDS[kind].package
