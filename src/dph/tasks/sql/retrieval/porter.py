"""English word stems, so that "singers" finds "singer".

**Source**: Porter (1980), An algorithm for suffix stripping, Program 14(3), with the two later
changes by its author that search engines use (bli -> ble for abli -> able, and logi -> log).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

_STEP_2 = MappingProxyType(
    {
        "ational": "ate",
        "tional": "tion",
        "enci": "ence",
        "anci": "ance",
        "izer": "ize",
        "bli": "ble",
        "alli": "al",
        "entli": "ent",
        "eli": "e",
        "ousli": "ous",
        "ization": "ize",
        "ation": "ate",
        "ator": "ate",
        "alism": "al",
        "iveness": "ive",
        "fulness": "ful",
        "ousness": "ous",
        "aliti": "al",
        "iviti": "ive",
        "biliti": "ble",
        "logi": "log",
    }
)
_STEP_3 = MappingProxyType(
    {
        "icate": "ic",
        "ative": "",
        "alize": "al",
        "iciti": "ic",
        "ical": "ic",
        "ful": "",
        "ness": "",
    }
)
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
    for suffix in sorted(endings, key=len, reverse=True):
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            return rest + endings[suffix] if _measure(rest) > 0 else word
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
