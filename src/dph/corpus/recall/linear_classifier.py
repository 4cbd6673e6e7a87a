"""A logistic regression on hashed pairs of tokens (scikit-learn), kept as one array of numbers."""

from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dph._base.files import atomic_file

_FEATURES = 2**18


class Linear:
    """Weights that were read from a file; the last one is the intercept."""

    def __init__(self, path: Path) -> None:
        self._weights: NDArray[np.float64] = np.load(path, allow_pickle=False)

    def scores(self, lines: Sequence[str]) -> list[float]:
        """As ``Classifier.scores``; a line without tokens has 0."""
        logits = _features(lines) @ self._weights[:-1] + self._weights[-1]
        chances = 1 / (1 + np.exp(-np.clip(logits, -60, 60)))
        return [float(chance) if line else 0.0 for line, chance in zip(lines, chances, strict=True)]


def learn_linear(seeds: Sequence[str], others: Sequence[str], out: Path, *, seed: int) -> None:
    """Learn from lines of either kind and write the weights to ``out`` (``seed`` changes none)."""
    del seed  # the optimum is unique and lbfgs draws nothing
    model = import_module("sklearn.linear_model").LogisticRegression(
        C=10.0, class_weight="balanced", max_iter=1000
    )
    labels = [1] * len(seeds) + [0] * len(others)
    model.fit(_features([*seeds, *others]), labels)
    weights = np.concatenate([model.coef_[0], model.intercept_])
    with atomic_file(out) as temporary, temporary.open("wb") as file:
        np.save(file, weights, allow_pickle=False)


def _features(lines: Sequence[str]) -> Any:
    text = import_module("sklearn.feature_extraction.text")
    hashing = text.HashingVectorizer(
        analyzer=_grams, n_features=_FEATURES, alternate_sign=False, binary=True
    )
    return hashing.transform(lines)


def _grams(line: str) -> list[str]:
    tokens = line.split(" ")
    pairs = [f"{a} {b}" for a, b in pairwise(tokens)]
    return tokens + pairs
