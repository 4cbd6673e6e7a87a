"""A page of histograms: every signal that a rule reads, with the cut and what it drops.

One HTML file without scripts. Bars beyond a cut have the colour of what is dropped.
"""

from collections.abc import Iterator
from html import escape

import numpy as np
from numpy.typing import NDArray

from dph.corpus.rules.presets import FilterRule, Preset
from dph.corpus.rules.tuning import (
    FilterOutcome,
    SignalColumns,
    SignalHistogram,
    histograms,
    outcome_of,
)

_WIDTH, _HEIGHT, _BASE = 480, 110, 92
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ --ink: #1f2430; --quiet: #5c6370; --page: #fff; --stays: #7a8aa6; --goes: #c2452d;
  color-scheme: light dark; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e8ec; --quiet: #a3aab6; --page: #16181d; --stays: #6f82a8; --goes: #e8735a; }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 34rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ font-size: 1rem; margin: 2rem 0 0; overflow-wrap: anywhere; }}
p {{ margin: 0.2rem 0; }} .quiet {{ color: var(--quiet); font-size: 0.87rem; }}
svg {{ width: 100%; height: auto; display: block; }}
.stays {{ fill: var(--stays); }} .goes {{ fill: var(--goes); }}
line {{ stroke: var(--goes); stroke-width: 1.5; stroke-dasharray: 4 3; }}
text {{ fill: var(--quiet); font-size: 11px; }}
</style></head><body>
"""


def histogram_page(preset: Preset, columns: SignalColumns) -> str:
    """The page, as HTML; rules that drop most come first."""
    outcome = outcome_of(preset, columns)
    title = f"Signals and cuts of {preset.name}"
    parts = [_HEAD.format(title=escape(title)), f"<h1>{escape(title)}</h1>"]
    total, gone = len(columns.ids), int(outcome.dropped.sum())
    parts.append(
        f"<p>{gone} of {total} documents are dropped, {_megabytes(columns, outcome.dropped)} MB of "
        f"{columns.sizes.sum() / 1e6:.2f}. Heights are square roots of counts, so that few "
        f"documents are visible; the outermost bars hold all that lies outside.</p>"
    )
    for rule in sorted(preset.rules.values(), key=lambda r: -int(outcome.drops[r.name].sum())):
        parts += _rule(rule, columns, outcome)
    return "\n".join([*parts, "</body></html>\n"])


def _rule(rule: FilterRule, columns: SignalColumns, outcome: FilterOutcome) -> Iterator[str]:
    shown = histograms(rule, columns)
    if not shown:
        return
    drops = outcome.drops[rule.name]
    yield f"<h2>{escape(rule.name)}</h2><p>{escape(rule.catches)}</p>"
    yield (
        f'<p class="quiet">drops {int(drops.sum())} documents ({_megabytes(columns, drops)} MB), '
        f"{int(outcome.alone(rule.name).sum())} of them alone"
        f"{'; 4 of 5 that it fires on' if rule.thinned else ''}</p>"
    )
    for each in shown:
        yield _chart(each)


def _chart(found: SignalHistogram) -> str:
    def x(value: float) -> float:
        places = np.linspace(0.0, _WIDTH, len(found.edges))
        return float(np.interp(value, found.edges, places))

    width = _WIDTH / len(found.counts) - 1
    heights = np.sqrt(found.counts / max(1, int(found.counts.max()))) * (_BASE - 14)
    middles = (found.edges[:-1] + found.edges[1:]) / 2
    bars = "".join(
        f'<rect class="{"goes" if found.condition.holds(float(middle)) else "stays"}" '
        f'x="{x(float(edge)):.1f}" y="{_BASE - height:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}"><title>{count} documents near {middle:.4g}</title></rect>'
        for edge, middle, height, count in zip(
            found.edges, middles, heights.tolist(), found.counts.tolist(), strict=False
        )
        if count
    )
    cuts = "".join(
        f'<line x1="{x(cut):.1f}" x2="{x(cut):.1f}" y1="2" y2="{_BASE}"/>'
        f'<text x="{x(cut):.1f}" y="{_HEIGHT - 4}" text-anchor="middle">{cut:g}</text>'
        for _, cut in found.condition.parts
    )
    kinds = ", ".join(found.kinds)
    missing = f", {found.missing} without a value" if found.missing else ""
    label = f"{found.condition.text} ({kinds}): fires on {found.fires} of {found.counts.sum()}"
    return (
        f'<p class="quiet">{escape(label)}{missing}</p>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{bars}{cuts}</svg>"
    )


def _megabytes(columns: SignalColumns, chosen: NDArray[np.bool_]) -> str:
    return f"{columns.sizes[chosen].sum() / 1e6:.2f}"
