r"""Products of units: ``10 m s`` is not ``10 s``, but ``9.8 m s^{-2}`` is ``9.8 m/s^2``."""

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

Powers = Mapping[str, int]

_AMOUNT = re.compile(
    r"[+-]?(?:[0-9][0-9.,]*+(?: ?/ ?[0-9]++)?|\\frac ?\{[0-9]++\} ?\{[0-9]++\})"
    r"(?: ?\\(?:times|cdot) ?10 ?\^ ?(?:\{ ?-?[0-9]++ ?\}|[0-9]))?(?=[ \\A-Za-z])"
)
_POWER = re.compile(r" ?\^ ?\{? ?(-?[0-9]) ?\}?")
_WRAPPING = re.compile(
    r"\\(?:text|mathrm|rm|mbox|textrm|operatorname)(?![A-Za-z])|[{}()]|\\?~|\\[ ,;]"
)
_TIMES = re.compile(r"\\(?:cdot|times)(?![A-Za-z])|[*\u00b7]")
_OVER = re.compile(r" ?/ ?| (?:per|an?) ")
_UNIT = re.compile(r" ?(?P<over>/)?(?P<name>[A-Za-z]++)(?:\^(?P<power>-?[0-9]))?")

_KINDS: tuple[tuple[str, Powers], ...] = (
    ("mm cm m km in ft yd mi", {"length": 1}),
    ("ms s min h day week month yr", {"time": 1}),
    ("mg g kg lb oz", {"mass": 1}),
    ("ml L gal", {"length": 3}),
    ("cent dollar", {"money": 1}),
    ("Hz kHz MHz", {"time": -1}),
    ("J kJ eV keV MeV", {"mass": 1, "length": 2, "time": -2}),
    ("W kW", {"mass": 1, "length": 2, "time": -3}),
)
_DIMENSIONS: Mapping[str, Powers] = MappingProxyType(
    {unit: powers for units, powers in _KINDS for unit in units.split()}
)


def unit_product(text: str, units: Mapping[str, str]) -> Powers | None:
    r"""The units after the number that a (cleaned) answer is, each with its power.

    None if it has no unit, or holds anything but units of ``units`` (their names by spelling).

    >>> names = {"m": "m", "s": "s"}
    >>> unit_product(r"10 \text{ m s}^{-2}", names) == unit_product("10 m/s^2", names)
    True
    >>> unit_product("10 m s", names), unit_product("10", names), unit_product("10 m x", names)
    ({'m': 1, 's': 1}, None, None)
    """
    amount = _AMOUNT.match(text)
    if amount is None:
        return None
    rest = _POWER.sub(r"^\1", text[amount.end() :])
    rest = re.sub(r" +", " ", _TIMES.sub(" ", _WRAPPING.sub(" ", rest))).strip()
    powers = _powers(_OVER.sub("/", f" {rest}".replace(" ^", "^")).strip(), units)
    return powers if powers and all(name in _DIMENSIONS for name in powers) else None


def _powers(rest: str, units: Mapping[str, str]) -> Powers | None:
    """The units of a text that is nothing else: names with powers, a slash before the last."""
    powers: Counter[str] = Counter()
    place = 0
    divided = False
    while place < len(rest):
        found = _UNIT.match(rest, place)
        if found is None or divided:  # what comes after a quotient may belong to either part
            return None
        divided = found["over"] is not None
        name = units.get(found["name"]) or units.get(found["name"].removesuffix("s"))
        # 10 ms^{-1} is what many write for 10 m s^{-1}.
        if name is None or (name == "ms" and (found["power"] or "").startswith("-")):
            return None
        power = int(found["power"] or 1) * (-1 if divided else 1)
        top, _, bottom = name.partition("/")  # mph is miles over hours
        powers[top] += power
        if bottom:
            powers[bottom] -= power
        place = found.end()
    return {name: power for name, power in powers.items() if power}


def dimensions(powers: Powers) -> Powers:
    """What a product of units measures.

    >>> dimensions({"J": 1, "s": -1}) == dimensions({"W": 1})
    True
    """
    total: Counter[str] = Counter()
    for unit, power in powers.items():
        for dimension, each in _DIMENSIONS[unit].items():
            total[dimension] += power * each
    return {dimension: power for dimension, power in total.items() if power}
