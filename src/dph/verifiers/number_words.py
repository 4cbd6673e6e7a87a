"""English number words: ``twenty-one``, ``two hundred and five``, ``three point one four``."""

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_BELOW_HUNDRED = {word: number for number, word in enumerate(_SMALL)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_POINT = "point"


def number_of_words(text: str) -> int | float | None:
    """The number that the number words of a text spell; None if there is none.

    Other words are skipped, and a text of nothing but digits is that number.

    >>> number_of_words("two hundred and five apples"), number_of_words("073")
    (205, 73)
    """
    plain = text.replace("-", " ").lower()
    if plain.isascii() and plain.isdigit():
        return int(plain) if len(plain) <= 1000 else None
    words = [word for word in plain.split() if _is_number_word(word)]
    if not words or any(words.count(word) > 1 for word in (*_SCALES, _POINT)):
        return None
    if _POINT not in words:
        return _whole(words)
    place = words.index(_POINT)
    decimals = [_BELOW_HUNDRED.get(word, 10) for word in words[place + 1 :]]
    if not decimals or max(decimals) > 9:
        return None
    whole = _whole(words[:place])
    return None if whole is None else float(f"{whole}.{''.join(map(str, decimals))}")


def _is_number_word(word: str) -> bool:
    return word in _BELOW_HUNDRED or word in _SCALES or word in ("hundred", _POINT)


def _whole(words: list[str]) -> int | None:
    """Sum of the groups before each scale; None when the scales do not fall."""
    total, group, last = 0, 0, 10**12
    for word in words:
        if word in _SCALES:
            if _SCALES[word] >= last:
                return None
            last = _SCALES[word]
            total += max(group, 1) * last
            group = 0
        elif word == "hundred":
            group = max(group, 1) * 100
        else:
            group += _BELOW_HUNDRED[word]
    return total + group
