"""Signals that text files and code have in common: sizes, words, n-grams, kinds of characters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dph.corpus.signals.view import FileView
from dph.corpus.signals.words import DUPLICATED, TOP

# What a signal is: a number about a file, or none.

Measure = Callable[[FileView], float | None]

_DECIMALS = 8


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal's name and the function that measures it.

    Values are rounded to 8 decimals before a threshold is applied, unless ``exact``.
    """

    name: str
    measure: Measure
    exact: bool = False

    def __call__(self, view: FileView) -> float | None:
        """The value, or None where the file has none."""
        value = self.measure(view)
        if value is None:
            return None
        return float(value) if self.exact else round(float(value), _DECIMALS)


def share(count: float, total: float) -> float | None:
    """``count / total``, or None of nothing."""
    return count / total if total else None


def num_words(view: FileView) -> float:
    """Normalised words."""
    return len(view.words)


def num_chars(view: FileView) -> float:
    """Characters."""
    return view.length


def num_lines(view: FileView) -> float:
    """Lines, blank ones among them."""
    return len(view.lines)


def mean_word_length(view: FileView) -> float | None:
    """Characters of a normalised word, on average."""
    return share(sum(map(len, view.words)), len(view.words))


def frac_words_unique(view: FileView) -> float | None:
    """Distinct normalised words over all."""
    return share(len(set(view.words)), len(view.words))


def frac_chars_replacement_symbols(view: FileView) -> float | None:
    """U+FFFD over all characters."""
    return share(view.characters.replacements, view.characters.total)


def frac_chars_alphabet(view: FileView) -> float:
    """Letters of any script over non-space characters."""
    return share(view.characters.alphabetic, view.characters.visible) or 0.0


def frac_chars_digital(view: FileView) -> float:
    """Digits over non-space characters; 1 if there are none of these."""
    counts = view.characters
    return counts.digits / counts.visible if counts.visible else 1.0


def frac_chars_whitespace(view: FileView) -> float:
    """Space over all characters; 1 for an empty file."""
    counts = view.characters
    return counts.spaces / counts.total if counts.total else 1.0


def _top(length: int) -> Measure:
    def frac_chars_top_ngram(view: FileView) -> float:
        return view.ngrams.top[length]

    return frac_chars_top_ngram


def _duplicated(length: int) -> Measure:
    def frac_chars_dupe_ngrams(view: FileView) -> float:
        return view.ngrams.duplicated[length]

    return frac_chars_dupe_ngrams


NGRAMS: Sequence[tuple[str, Measure]] = (
    *((f"frac_chars_top_{n}grams", _top(n)) for n in TOP),
    *((f"frac_chars_dupe_{n}grams", _duplicated(n)) for n in DUPLICATED),
)
"""Shares of repeated n-grams, by name."""
