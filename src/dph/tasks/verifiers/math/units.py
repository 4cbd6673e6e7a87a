"""Units of measure: 10 m is not 10 cm, though 10 may stand for either; am is not pm."""

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
_MULTIPLIED = re.compile(r"\\(?:cdot|times)(?![A-Za-z])|[*\u00b7]")
_DIVIDED = re.compile(r" ?/ ?| (?:per|an?) ")
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
    rest = re.sub(r" +", " ", _MULTIPLIED.sub(" ", _WRAPPING.sub(" ", rest))).strip()
    powers = _powers(_DIVIDED.sub("/", f" {rest}".replace(" ^", "^")).strip(), units)
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
    """Dimensions of a product of units.

    >>> dimensions({"J": 1, "s": -1}) == dimensions({"W": 1})
    True
    """
    total: Counter[str] = Counter()
    for unit, power in powers.items():
        for dimension, each in _DIMENSIONS[unit].items():
            total[dimension] += power * each
    return {dimension: power for dimension, power in total.items() if power}


# Each unit, and after it its other names; a plural's s is left out.
_NAMES = """
mm millimeter millimetre, cm centimeter centimetre, m meter metre, km kilometer kilometre
in inch inche, ft foot feet, yd yard, mi mile, mi/h mph, km/h kph kmh
mg milligram, g gram, kg kilogram, lb lbs pound, oz ounce
ms millisecond, s sec second, min minute, h hr hour, day, week, month, yr year
ml mL milliliter millilitre, L l liter litre, gal gallon
cent, dollar USD, EUR euro, GBP, JPY yen, CNY RMB yuan, INR rupee Rs, KRW won, RUB rouble ruble, CHF
deg degree, rad radian, am, pm, Hz hertz, kHz kilohertz, MHz megahertz
J joule, kJ kilojoule, W watt, kW kilowatt, eV, keV, MeV
"""
_UNITS = {
    name: group.split()[0] for group in re.split(r",|\n", _NAMES.strip()) for name in group.split()
}
_LENGTHS = frozenset(("mm", "cm", "m", "km", "in", "ft", "yd", "mi"))
_TIMES = frozenset(("ms", "s", "min", "h", "day", "week", "month", "yr"))
_OVER = r"(?: ?/ ?| per | an? )"
_NAME = rf"[A-Za-z]++(?:{_OVER}[A-Za-z]++)?"
_TRAILING = re.compile(
    rf"(?:(?:text|mathrm|rm|mbox)\{{ ?|[ }}])(?P<unit>{_NAME}) ?\}}?"
    r" ?(?:\^ ?\{? ?(?P<power>-?[0-9]) ?\}?)?$"
)
_DOLLARS = re.compile(r"([+-]?) ?\\\$ ?(?=[0-9.]+$)")
_IN_WORDS = re.compile(rf"(?P<before>.*?[^ ]) (?P<unit>{_NAME})(?P<power> ?\^ ?\{{? ?[0-9] ?\}}?)?")


def unit_of(text: str) -> tuple[str, str] | None:
    r"""The unit that ends a (cleaned) answer and its power, if it is one of the common ones.

    >>> unit_of(r"10 \text{ cm}^2"), unit_of("5 miles per hour"), unit_of("3x")
    (('cm', '2'), ('mi/h', '1'), None)
    """
    if _DOLLARS.match(text):
        return "dollar", "1"
    found = _TRAILING.search(text[-40:].replace(".", ""))
    unit = _known(found["unit"]) if found else None
    return (unit, found["power"] or "1") if found and unit else None


def units_differ(answer: str, gold: str) -> bool:
    r"""True if both texts end in a common unit, and in different ones.

    Of quotients only speeds are told from each other and from lengths and times: ``J/s`` may be
    ``W``, and what ends in ``s^{-1}`` may be any of them.

    >>> units_differ("5 m", "5 cm"), units_differ("5 m/s", "5 km/h"), units_differ("5 J/s", "5 W")
    (True, True, False)

    Products are told from each other by what they measure.

    >>> units_differ("10 m s", "10 s"), units_differ("10 m s", "10 s m")
    (True, False)
    """
    products = unit_product(answer, _UNITS), unit_product(gold, _UNITS)
    if products[0] is not None and products[1] is not None:
        if products[0] == products[1]:
            return False
        if dimensions(products[0]) != dimensions(products[1]):
            return True
    one, other = unit_of(answer), unit_of(gold)
    if one is None or other is None or one == other:
        return False
    if "/" not in one[0] + other[0]:
        return True
    return _is_of_motion(answer, one) and _is_of_motion(gold, other)


def _is_of_motion(text: str, unit: tuple[str, str]) -> bool:
    """True if a unit is a length, a time or one over the other, right after a number."""
    name, power = unit
    top, _, bottom = name.partition("/")
    known = (top in _LENGTHS and bottom in _TIMES) if bottom else top in _LENGTHS | _TIMES
    return known and power in "12" and _before_unit(text)[-1:].isdigit()


def amounts(answer: str, gold: str) -> tuple[str, str] | None:
    r"""Text before the unit of either (cleaned) text, where both have the same.

    >>> amounts("5 m/s", r"5 \text{ m/s}"), amounts("5 m", "5 cm"), amounts("5", "5 m")
    (('5', '5'), None, None)
    """
    unit = unit_of(answer)
    if unit is None or unit != unit_of(gold):
        return None
    return _before_unit(answer), _before_unit(gold)


def without_unit(text: str) -> str:
    """A (cleaned) answer without the common unit that ends it in plain words.

    >>> without_unit("5 dollars"), without_unit("5 or 6"), without_unit("5 m/s^2")
    ('5', '5 or 6', '5')
    """
    found = _IN_WORDS.fullmatch(text)
    unit = _known(found["unit"]) if found else None
    if found is None or unit is None:
        return text
    # 3 s^3 is not an amount of seconds.
    return text if found["power"] and "/" not in unit and unit not in _LENGTHS else found["before"]


def _before_unit(text: str) -> str:
    found = _TRAILING.search(text)
    text = _DOLLARS.sub(r"\1", text)
    return text[: found.start()].rstrip("\\ ,") if found else text


def _known(name: str) -> str | None:
    """The unit of that name, or the quotient of two."""
    words = re.split(_OVER, name)
    units = [_UNITS.get(word) or _UNITS.get(word.removesuffix("s")) for word in words]
    known = [unit for unit in units if unit is not None]
    return "/".join(known) if len(known) == len(units) else None
