"""BM25 over short texts, ranked as Lucene ranks them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nsmallest
from math import log

from dph.tasks.sql.retrieval.words import terms

_K1, _B = 0.9, 0.4
_DIGITS = 5
"""Scores that agree to so many decimals are equal: Lucene computes them in single precision."""


class BM25:
    """An index of ``texts``; ``keys`` decide between equal scores, in the order of their bytes.

    **Equation**: sum over the query's terms t of
    log(1 + (N - n_t + 1/2) / (n_t + 1/2)) f / (f + k1 (1 - b + b L / mean L)), k1 = 0.9, b = 0.4
    (Robertson et al. 1995, in the form and with the constants of Lucene as Anserini sets it).
    """

    def __init__(self, texts: Sequence[str], keys: Sequence[str]) -> None:
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for document, text in enumerate(texts):
            words = terms(text)
            lengths.append(len(words))
            for word, count in Counter(words).items():
                self._postings[word].append((document, count))
        self._filled = sum(map(bool, lengths))
        mean = sum(lengths) / self._filled if self._filled else 1.0
        self._norms = [_K1 * (1 - _B + _B * length / mean) for length in lengths]
        self._keys = [key.encode("utf-8", "surrogateescape") for key in keys]

    def search(self, query: str, *, limit: int) -> list[int]:
        """The documents that share a term with the query, best first, at most ``limit``."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word, wanted in Counter(terms(query)).items():
            postings = self._postings.get(word, ())
            weight = log(1 + (self._filled - len(postings) + 0.5) / (len(postings) + 0.5))
            for document, count in postings:
                scores[document] += wanted * weight * count / (count + self._norms[document])
        return nsmallest(limit, scores, key=lambda d: (-round(scores[d], _DIGITS), self._keys[d]))
