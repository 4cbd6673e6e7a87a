"""A chart of the page: a Vega-Lite specification and the columns that it draws.

Runs are drawn in the page's own colours (``--r0`` ...: one for light, one for dark) and filtered by
the parameter ``shown``, which the page sets when a run is switched on or off. Texts (labels, names
of sets) are data or titles, never field names or expressions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

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
