"""A pool in a few lines: how many problems were solved how often, and the sizes of its sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dph.cli.display.chart import bar_chart

if TYPE_CHECKING:
    from dph.presampling.manifest import Manifest


def pool_text(manifest: "Manifest") -> str:
    """The histogram and the sizes."""
    counts, samples = manifest.counts, manifest.source.samples
    chart = bar_chart([str(c) for c in range(samples + 1)], counts.histogram)
    return (
        f"correct of {samples}: problems\n{chart}\n"
        f"{counts.problems} problems: {counts.exploration} to explore, {counts.rehearsal} to "
        f"rehearse, {counts.discarded} left out (the final sample was wrong)"
    )


def pool_json(path: Path, manifest: "Manifest") -> dict[str, Any]:
    """The same for machines."""
    return {"pool": str(path), "samples": manifest.source.samples} | manifest.counts.model_dump(
        mode="json"
    )
