"""BM25 over short texts, ranked as Lucene ranks them."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from math import log

# English word stems, so that "singers" finds "singer".
#
# **Source**: Porter (1980), An algorithm for suffix stripping, Program 14(3), with the two later
# changes by its author that search engines use (bli -> ble for abli -> able, and logi -> log).


def _endings(pairs: str) -> dict[str, str]:
    """Endings and what takes their place, each pair by a colon; the longest ending first."""
    found = [pair.split(":") for pair in pairs.split()]
    return dict(sorted(found, key=lambda pair: -len(pair[0])))


_STEP_2 = _endings(
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e "
    "ousli:ous ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous "
    "aliti:al iviti:ive biliti:ble logi:log"
)
_STEP_3 = _endings("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:")
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a lower-case word; words of one or two letters are their own.

    >>> [stem(w) for w in ("singers", "happiness", "relational", "hopping", "is")]
    ['singer', 'happi', 'relat', 'hop', 'is']
    """
    if len(word) <= 2:
        return word
    word = _past_and_ing(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(_replace(word, _STEP_2), _STEP_3)
    return _final_letters(_strip(word))


def _shape(word: str) -> str:
    """The word as consonants and vowels; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often a vowel is followed by a consonant."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y: the ending of "hop"."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


def _plural(word: str) -> str:
    for suffix, replacement in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(suffix):
            return word.removesuffix(suffix) + replacement
    return word


def _past_and_ing(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    found = re.fullmatch("(.*)(?:ed|ing)", word)
    if found is None or "v" not in _shape(found[1]):
        return word
    rest: str = found[1]
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if re.search(r"([^aeiou])\1$", rest) and _shape(rest).endswith("c"):
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replace(word: str, endings: Mapping[str, str]) -> str:
    """Replace the longest ending that fits, if enough of the word is left."""
    for suffix, replacement in endings.items():
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            return rest + replacement if _measure(rest) > 0 else word
    return word


def _strip(word: str) -> str:
    for suffix in sorted(_STEP_4, key=len, reverse=True):
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            allowed = suffix != "ion" or rest.endswith(("s", "t"))
            return rest if allowed and _measure(rest) > 1 else word
    return word


def _final_letters(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


LONGEST_QUERY = 8
"""Words of the longest n-gram; the whole question is searched for as well."""

# Lucene's list for English.
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into"),
        *("is", "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then"),
        *("there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
# Letters and digits, held together by an apostrophe or a point between letters, by a point or a
# comma between digits, and by underscores (word breaks of Unicode, UAX 29).
_TERM = re.compile(
    r"[^\W_]+(?:['\u2019][^\W_]+|(?<=\d)[.,](?=\d)\d+|(?<=[A-Za-z])\.(?=[A-Za-z])[^\W_]+)*"
    r"(?:_+\w+)*|_+\w+"
)
_POSSESSIVE = re.compile(r"['\u2019][sS]$")

# What the Penn Treebank's tokenizer sets apart; the order matters.
_APART = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"([,:])(\D)", r" \1 \2"),
        (r"([,:])$", r" \1 "),
        (r"\.\.\.", " ... "),
        (r"[;@#$%&?!\[\](){}<>]", r" \g<0> "),
        (r"([^.])(\.)([\])}>\"'\u00bb\u201d\u2019 ]*)\s*$", r"\1 \2 \3 "),
        (r"--", " -- "),
        (r'"', ' " '),
        (r"([^' ])('[sS]|'[mM]|'[dD]|')(?= |$)", r"\1 \2"),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?= |$)", r"\1 \2"),
    )
)


def terms(text: str) -> list[str]:
    """Terms of a text for a search engine: words in lower case, stemmed, without stop words.

    >>> terms("What are the singers' names?")
    ['what', 'singer', 'name']
    """
    words = (_POSSESSIVE.sub("", found).lower() for found in _TERM.findall(text))
    return [stem(word) for word in words if word not in _STOP_WORDS]


def queries(question: str) -> list[str]:
    """Every run of one to eight words of a question, then the question, each once.

    >>> queries("Who sings?")
    ['Who', 'sings', '?', 'Who sings', 'sings ?', 'Who sings ?', 'Who sings?']
    """
    text = question
    for pattern, replacement in _APART:
        text = pattern.sub(replacement, text)
    words = text.split()
    grams = [
        " ".join(words[start : start + size])
        for size in range(1, LONGEST_QUERY + 1)
        for start in range(len(words) - size + 1)
    ]
    return list(dict.fromkeys([*grams, question]))


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
