"""A chart of the page: a Vega-Lite specification and the columns that it draws.

Runs are drawn in the page's own colours (``--r0`` ...: one for light, one for dark) and filtered by
the parameter ``shown``, which the page sets when a run is switched on or off. Texts (labels, names
of sets) are data or titles, never field names or expressions.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dph.results.charts.palette import Look

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


def run_colour(keys: Iterable[str]) -> "alt.Color":
    """The runs' colours, without a legend: the page's own switches are one."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    scale = alt.Scale(domain=list(keys), range=[f"var(--{key})" for key in keys])
    return alt.Color("run:N", scale=scale, legend=None)


def run_shape(looks: Mapping[str, Look]) -> "alt.Shape":
    """The runs' markers, those of every picture."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    scale = alt.Scale(domain=list(looks), range=[look.shape for look in looks.values()])
    return alt.Shape("run:N", scale=scale, legend=None)


def run_dash(looks: Mapping[str, Look], width: float) -> "alt.StrokeDash":
    """The dashes of the runs' lines of a width in pixels; most are solid."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    dashes = [[width * part for part in look.dash] or [1, 0] for look in looks.values()]
    scale = alt.Scale(domain=list(looks), range=dashes)
    return alt.StrokeDash("run:N", scale=scale, legend=None)


def finished(chart: "alt.LayerChart", keys: Iterable[str], *, height: int) -> dict[str, Any]:
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
