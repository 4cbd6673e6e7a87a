"""The words that the Qwen2.5-Math evaluation tool drops as units, wherever they stand alone.

Some are not units at all (``ratio``, ``way``, ``no change``, single letters): leaving them out is
a part of the tool's behaviour, and so is the order in which they go. A point in them stands for
any character, as it does in the tool.
"""

import re
from functools import cache

_IN_ORDER = (
    "east|degree|mph|kmph|ft|m sqaure| m east|sq m|deg|mile|q .|monkey|prime|ratio|"
    "profit of rs|rd|o|gm|p . m|lb|tile|per|dm|lt|gain|ab|way|west|a .|b .|c .|d .|e .|f .|"
    "g .|h .|t|a|h|no change|men|soldier|pie|bc|excess|st|inches|noon|percent|by|gal|kmh|c|"
    "acre|rise|a . m|th|\u03c0 r 2|sq|mark|l|toy|coin|sq . m|gallon|\u00b0 f|profit|minw|yr|"
    "women|feet|am|pm|hr|cu cm|square|are|rupee|rounds|cubic|cc|mtr|s|ohm|number|day|hour|"
    "minute|min|second|man|woman|sec|cube|mt|sq inch|mp|\u220f cm \u00b3|hectare|more|unit|"
    "cu . m|cm 2|rs .|rs|kg|g|month|km|m|cm|mm|apple|liter|loss|"
    "yard|pure|year|increase|decrease|d|less|Surface|"
    "litre|pi sq m|s .|metre|meter|inch"
)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    singular = _IN_ORDER.split("|")
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
