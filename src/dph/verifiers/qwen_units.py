"""The words that the Qwen2.5-Math evaluation tool drops as units, wherever they stand alone.

Some are no units at all (``ratio``, ``way``, ``no change``, single letters): leaving them out is
a part of the tool's behaviour.
"""

import re
from functools import cache

_WORDS = (
    "acre am apple are by coin cube cubic day decrease deg degree east excess feet gain gallon "
    "hectare hour inch inches increase less liter litre loss man mark men meter metre mile minute "
    "monkey month more noon number ohm per percent pie pm prime profit pure ratio rise rounds "
    "rupee sec second soldier square tile toy unit way west woman women yard year"
)
_SHORT = (
    "a ab bc c cc cm d deg dm ft g gal gm h hr kg km kmh kmph l lb lt m min mm mp mph mt mtr "
    "o rd rs s sq st t th yr minw"
)
_PHRASES = ("no change", "profit of rs", "sq inch", "sq m", "cu cm", "cm 2", "pi sq m", " m east")
_ODD = ("Surface", "m sqaure", "\u03c0 r 2", "\u00b0 f", "\u220f cm \u00b3")
# A point in these stands for any character, as it does in the tool.
_DOTTED = (
    *(f"{letter} ." for letter in "abcdefghqs"),
    *("a . m", "p . m", "sq . m", "cu . m", "rs ."),
)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    singular = (*_ODD, *_PHRASES, *_DOTTED, *sorted((_WORDS + " " + _SHORT).split(), reverse=True))
    units = dict.fromkeys((*singular, *(f"{unit}s" for unit in singular)))
    return tuple((unit.partition(" .")[0], re.compile(rf"(^|\W){unit}($|\W)")) for unit in units)


def without_units(text: str) -> str:
    """The text without its units. A text that is nothing but a unit stays.

    >>> without_units("12 miles"), without_units("a")
    ('12 ', 'a')
    """
    for _ in range(2):
        for hint, pattern in _patterns():
            if hint in text:
                text = pattern.sub(r"\1\2", text) or text
    return text
