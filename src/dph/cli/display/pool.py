"""A pool in a few lines: how often problems were solved, its sides, and what the answers were."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dph.results.diagnosis.styles import Complementarity
    from dph.runs.presample.manifest import Manifest


BAR_WIDTH = 40


def bar_chart(labels: Sequence[str], counts: Sequence[int]) -> str:
    """A horizontal bar for each count; anything above zero is visible.

    >>> print(bar_chart(["0", "1"], [40, 1]))
    0  40 ########################################
    1   1 #
    """
    widest, largest = max(map(len, labels), default=0), max([*counts, 1])
    digits = len(str(largest))
    bars = ["#" * -(-count * BAR_WIDTH // max(largest, BAR_WIDTH)) for count in counts]
    return "\n".join(
        f"{label.rjust(widest)}  {count:{digits}d} {bar}".rstrip()
        for label, count, bar in zip(labels, counts, bars, strict=True)
    )


def pool_text(pool: Path, manifest: "Manifest") -> str:
    """The histogram, the sizes and what the styles add to each other.

    If a side is empty, also the outcomes and the probable cause.
    """
    from dph.runs.presample.diagnosis import cut_off_share, likely_cause, shares_text, shortage

    counts, samples = manifest.counts, manifest.source.answers
    chart = bar_chart([str(c) for c in range(samples + 1)], counts.histogram)
    lines = [
        f"correct of {samples}: problems\n{chart}",
        f"{counts.prompts} problems: {counts.exploration} to explore, {counts.rehearsal} to "
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
    if (found := _complementarity(pool)) is not None:
        from dph.results.diagnosis.set_diagnosis import complementarity_text

        lines.append(f"styles: {complementarity_text(found)}")
    if missing := shortage(counts):
        outcomes = shares_text(counts.outcomes) or "not known"
        lines.append(
            f"there is {missing}\noutcomes of all answers: {outcomes}\n"
            f"likely cause: {likely_cause(manifest)}"
        )
    return "\n".join(lines)


def _complementarity(pool: Path) -> "Complementarity | None":
    """Complementarity of the styles of a pool's answers; None without styles."""
    import pyarrow.parquet as pq

    from dph.results.diagnosis.styles import complementarity, pool_style_counts
    from dph.runs.presample.pool import SAMPLES

    counts = pool_style_counts(
        pq.read_table(pool / SAMPLES, columns=["outcome", "problem_id", "style"])
    )
    return None if counts is None else complementarity(counts)


def pool_json(path: Path, manifest: "Manifest") -> dict[str, Any]:
    """The same for machines."""
    from dph.runs.presample.diagnosis import cut_off_share, likely_cause, shortage

    counts = manifest.counts
    missing, found = shortage(counts), _complementarity(path)
    return {
        "pool": str(path),
        "samples": manifest.source.answers,
        "problems": counts.prompts,
        **counts.model_dump(mode="json", exclude_unset=True, exclude={"prompts"}),
        "cut_off": cut_off_share(counts),
        "complementarity": found and asdict(found),
        "shortage": f"{missing}: {likely_cause(manifest)}" if missing else None,
    }
