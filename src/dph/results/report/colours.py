"""The palette's colours on a dark page: the same hue, light enough to be seen."""

from collections.abc import Iterator

DARK = "#15171b"
"""The page's dark background (browser/style.css)."""
_ENOUGH = 3.0
"""Contrast of lines and marks against what is behind them (WCAG 2.2, criterion 1.4.11)."""


def on_dark(colour: str) -> str:
    """``colour`` mixed with as little white as it takes to be seen; greys are turned round.

    >>> on_dark("#E69F00"), on_dark("#4D4D4D")
    ('#E69F00', '#b2b2b2')
    """
    if len(set(_parts(colour))) == 1:
        return "#" + f"{255 - _parts(colour)[0]:02x}" * 3
    for mixed in _towards_white(colour):
        if contrast(mixed, DARK) >= _ENOUGH:
            return mixed
    return "#ffffff"


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2, relative luminance).

    >>> round(contrast("#ffffff", "#000000"), 6)
    21.0
    """
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _towards_white(colour: str) -> Iterator[str]:
    yield colour
    for percent in range(1, 100):
        parts = (round(part + (255 - part) * percent / 100) for part in _parts(colour))
        yield "#" + "".join(f"{part:02x}" for part in parts)


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(part / 255) for part in _parts(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
