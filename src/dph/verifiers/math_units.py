"""Units of measure: 10 m is not 10 cm, though 10 may stand for either; am is not pm."""

import re

_UNITS = {
    name: group[0]
    for group in (
        line.split()
        for line in (
            "mm millimeter millimetre",
            "cm centimeter centimetre",
            "m meter metre",
            "km kilometer kilometre",
            "in inch inche",
            "ft foot feet",
            "yd yard",
            "mi mile",
            "mg milligram",
            "g gram",
            "kg kilogram",
            "lb lbs pound",
            "oz ounce",
            "ms millisecond",
            "s sec second",
            "min minute",
            "h hr hour",
            "day",
            "week",
            "month",
            "yr year",
            "ml mL milliliter millilitre",
            "L l liter litre",
            "gal gallon",
            "cent",
            "dollar",
            "deg degree",
            "rad radian",
            "am",
            "pm",
            "Hz hertz",
            "kHz kilohertz",
            "MHz megahertz",
            "J joule",
            "kJ kilojoule",
            "W watt",
            "kW kilowatt",
            "eV",
            "keV",
            "MeV",
        )
    )
    for name in group
}
_TRAILING = re.compile(
    r"(?:(?:text|mathrm|rm|mbox)\{ ?|[ }])(?P<unit>[A-Za-z]++) ?\}?"
    r" ?(?:\^ ?\{? ?(?P<power>-?[0-9]) ?\}?)?$"
)


def unit_of(text: str) -> tuple[str, str] | None:
    r"""The unit that ends a (cleaned) answer and its power, if it is one of the common ones.

    >>> unit_of(r"10 \text{ cm}^2"), unit_of("5 dollars"), unit_of("3x")
    (('cm', '2'), ('dollar', '1'), None)
    """
    found = _TRAILING.search(text[-40:].replace(".", ""))
    unit = _known(found["unit"]) if found else None
    return (unit, found["power"] or "1") if found and unit else None


def units_differ(answer: str, gold: str) -> bool:
    """Whether both texts end in a common unit, and in different ones."""
    one, other = unit_of(answer), unit_of(gold)
    return one is not None and other is not None and one != other


def without_unit(text: str) -> str:
    """A (cleaned) answer without the common unit that ends it in plain words.

    >>> without_unit("5 dollars"), without_unit("5 or 6"), without_unit("5 m")
    ('5', '5 or 6', '5')
    """
    before, blank, word = text.rpartition(" ")
    return before if blank and _known(word) else text


def _known(word: str) -> str | None:
    return _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))
