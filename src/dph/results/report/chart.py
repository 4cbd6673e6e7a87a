"""A chart of the page: a Vega-Lite specification and the columns that it draws.

Runs are drawn in the page's own colours (``--r0`` ...: one for light, one for dark) and filtered by
the parameter ``shown``, which the page sets when a run is switched on or off. Texts (labels, names
of sets) are data or titles, never field names or expressions.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt


# Characters that nobody sees, or that turn the direction of writing, as visible marks.

_KEPT = "\n\t"


def marked(text: str) -> str:
    r"""``text`` with every control and format character written out.

    The page's own script does the same with what it shows (browser/text.js).

    >>> marked("a\x1bb\u202ec")
    'a⟨U+001B⟩b⟨U+202E⟩c'
    """
    return "".join(
        f"⟨U+{ord(letter):04X}⟩" if letter not in _KEPT and _is_hidden(letter) else letter
        for letter in text
    )


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")


# The palette's colours on a dark page: the same hue, light enough to be seen.

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


ROWS = "rows"
"""The name of the data in every specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """``columns`` hold equally many values; ``section`` is the part of the page it belongs to."""

    section: str
    title: str
    caption: str
    spec: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]

    def document(self) -> dict[str, Any]:
        """For the page's index."""
        return {
            "section": self.section,
            "title": self.title,
            "caption": self.caption,
            "spec": self.spec,
            "columns": self.columns,
        }


def run_colour(keys: Sequence[str]) -> "alt.Color":
    """The runs' colours, without a legend: the page's own switches are one."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    scale = alt.Scale(domain=list(keys), range=[f"var(--{key})" for key in keys])
    return alt.Color("run:N", scale=scale, legend=None)


def finished(chart: "alt.LayerChart", keys: Sequence[str], *, height: int) -> dict[str, Any]:
    """The specification, as wide as its place in the page."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    shown = alt.param(name="shown", value=list(keys))
    whole = chart.add_params(shown).transform_filter("indexof(shown, datum.run) >= 0")
    spec: dict[str, Any] = (
        whole.properties(width="container", height=height)
        .configure(background="transparent", font="inherit")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor="currentColor",
            titleColor="currentColor",
            tickColor="currentColor",
            domainColor="currentColor",
            gridColor="currentColor",
            gridOpacity=0.1,
            domainOpacity=0.4,
            tickOpacity=0.4,
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
        )
        .to_dict()
    )
    return spec
