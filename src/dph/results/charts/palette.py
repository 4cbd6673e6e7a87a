"""One look for each method, one fill for each style, in every picture and on the dark page.

Methods: Okabe and Ito (2008), Color Universal Design, with two more from Tol's muted scheme.
Fills: Tol's light scheme (2021, SRON/EPS/TN/09-002), made for black text on top.
"""

import colorsys
import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from dph.results.vocabulary import BASE

RING = (
    "M-1.1,0A1.1,1.1,0,1,1,1.1,0A1.1,1.1,0,1,1,-1.1,0M-0.6,0A0.6,0.6,0,1,0,0.6,0"
    "A0.6,0.6,0,1,0,-0.6,0Z"
)
_CROSSED = (
    "M-1.1,-0.7L-0.7,-1.1L0,-0.4L0.7,-1.1L1.1,-0.7L0.4,0L1.1,0.7L0.7,1.1L0,0.4L-0.7,1.1"
    "L-1.1,0.7L-0.4,0Z"
)
_PENTAGON = "M0,-1.2L1.141,-0.371L0.705,0.971L-0.705,0.971L-1.141,-0.371Z"
_HEXAGON = "M0,-1.2L1.039,-0.6L1.039,0.6L0,1.2L-1.039,0.6L-1.039,-0.6Z"
_FEW = 5


class Look(NamedTuple):
    """Drawing of a method: its colour, and the shape of its markers as Vega has it."""

    colour: str
    shape: str

    @property
    def dash(self) -> tuple[int, ...]:
        """Lengths of the line's dashes and gaps in widths of the line; empty: it has none."""
        return (4, 2) if self.shape == RING else ()


def band_opacity(models: int) -> float:
    """Opacity of the bands of this many models: many would pile up.

    >>> band_opacity(5), band_opacity(6)
    (0.12, 0.06)
    """
    return 0.12 if models <= _FEW else 0.06


_FIXED: Mapping[str, Look] = MappingProxyType(
    {
        BASE: Look("#4D4D4D", RING),
        "grpo": Look("#D55E00", "square"),
        "dapo": Look("#E69F00", "triangle-down"),
        "rkl": Look("#CC79A7", "triangle-up"),
        "alpha": Look("#56B4E9", "cross"),
        "dph_f": Look("#0072B2", "circle"),
        "dph_js": Look("#009E73", "diamond"),
        "dph_js_definition": Look("#882255", _CROSSED),
    }
)
_SPARE = (
    Look("#CC79A7", "triangle-up"),
    Look("#999933", "triangle-left"),
    Look("#882255", _CROSSED),
    Look("#56B4E9", "cross"),
    Look("#E69F00", "triangle-down"),
    Look("#661100", "triangle-right"),
    Look("#44AA99", _PENTAGON),
    Look("#AA4466", _HEXAGON),
)
_GOLDEN = 0.6180339887498949
_FILLS = ("#77AADD", "#EE8866", "#EEDD88", "#44BB99", "#FFAABB", "#99DDFF", "#BBCC33", "#AAAA00")
_OTHER = "#DDDDDD"
MOST_STYLES = len(_FILLS)
"""So many styles have a fill of their own."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of each method; one that is not known takes the next that is free.

    No two have the same colour, however many there are.
    """
    wanted = list(names)
    chosen = {name: _FIXED[name] for name in wanted if name in _FIXED}
    free = [look for look in _SPARE if look not in chosen.values()]
    others = [name for name in wanted if name not in chosen]
    chosen |= dict(zip(others, itertools.chain(free, _further()), strict=False))
    return {name: chosen[name] for name in wanted}


def _further() -> Iterator[Look]:
    """Looks without end, no colour twice: hues a golden section apart, shapes in turn."""
    for i in itertools.count():
        red, green, blue = colorsys.hls_to_rgb((0.1 + i * _GOLDEN) % 1, (0.34, 0.46)[i % 2], 0.55)
        colour = "#" + "".join(f"{round(255 * part):02X}" for part in (red, green, blue))
        yield Look(colour, _SPARE[i % len(_SPARE)].shape)


def looks_by_method(methods: Mapping[str, str | None]) -> dict[str, Look]:
    """The look of each name: that of its method where no name before it has the same method.

    Those are chosen before the others, so that one of each method are told apart best.
    """
    keys: dict[str, str] = {}
    for name, method in methods.items():
        keys[name] = name if method is None or method in keys.values() else method
    first = [key for name, key in keys.items() if key == methods[name]]
    chosen = looks(dict.fromkeys([*first, *keys.values()]))
    return {name: chosen[key] for name, key in keys.items()}


def fills(styles: Iterable[str]) -> dict[str, str]:
    """The fill of each style, in order; ``other`` is grey."""
    named = [style for style in styles if style != "other"]
    chosen = {style: _FILLS[i % len(_FILLS)] for i, style in enumerate(named)}
    return chosen | {"other": _OTHER}


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
