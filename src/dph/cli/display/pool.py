"""A pool in a few lines: how often problems were solved, its sides, and what the answers were."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dph.cli.display.chart import bar_chart

if TYPE_CHECKING:
    from dph.runs.presample.manifest import Manifest


def pool_text(manifest: "Manifest") -> str:
    """The histogram and the sizes; where a side is empty, the outcomes and the probable cause."""
    from dph.runs.presample.diagnosis import cut_off_share, likely_cause, shares_text, shortage

    counts, samples = manifest.counts, manifest.source.samples
    chart = bar_chart([str(c) for c in range(samples + 1)], counts.histogram)
    lines = [
        f"correct of {samples}: problems\n{chart}",
        f"{counts.problems} problems: {counts.exploration} to explore, {counts.rehearsal} to "
        f"rehearse, {counts.discarded} left out (the final sample was wrong)",
        f"{counts.ungradable} ungradable (the gold answer cannot be graded, or the verifier "
        f"crashed on every answer){'; ungradable.parquet lists them' * (counts.ungradable > 0)}",
    ]
    cut_off = cut_off_share(counts)
    if cut_off is not None:
        lines.append(
            f"{100 * cut_off:.1f}% of {sum(counts.outcomes.values())} answers were cut off at "
            f"max_tokens = {manifest.source.max_tokens}"
        )
    if missing := shortage(counts):
        outcomes = shares_text(counts.outcomes) or "not known"
        lines.append(
            f"there is {missing}\noutcomes of all answers: {outcomes}\n"
            f"likely cause: {likely_cause(manifest)}"
        )
    return "\n".join(lines)


def pool_json(path: Path, manifest: "Manifest") -> dict[str, Any]:
    """The same for machines."""
    from dph.runs.presample.diagnosis import cut_off_share, likely_cause, shortage

    counts = manifest.counts
    missing = shortage(counts)
    return {
        "pool": str(path),
        "samples": manifest.source.samples,
        **counts.model_dump(mode="json"),
        "cut_off": cut_off_share(counts),
        "shortage": f"{missing}: {likely_cause(manifest)}" if missing else None,
    }
