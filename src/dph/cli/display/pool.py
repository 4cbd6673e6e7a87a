"""A pool in a few lines: how often problems were solved, its sides, and what the answers were."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dph.runs.presample.manifest import Manifest


# Stores in a few lines each: how much they hold, and how far their answers agree.


def stores_text(stores: Mapping[str, "Manifest"], places: Mapping[str, Path]) -> Iterator[str]:
    """Sizes, agreement where answers were compared, and the place of every store."""
    for name, manifest in stores.items():
        counts = manifest.counts
        yield (
            f"store {name}: {counts.answers} answers to {counts.prompts} prompts, {counts.tokens} "
            f"tokens, {counts.bytes_per_token:.1f} bytes a token, {counts.cut_off} cut off"
        )
        if counts.prompts_that_agree is not None and counts.agreement is not None:
            yield (
                f"  for {100 * counts.prompts_that_agree:.1f}% of the prompts two or more answers "
                f"agree; an answer agrees with {100 * counts.agreement:.1f}% of the others"
            )
        if counts.agreed_wrong is not None:
            yield (
                f"  where gold answers are known ({counts.labelled} prompts), the result that most "
                f"agree on is wrong for {100 * counts.agreed_wrong:.1f}%"
            )
        yield f"store: {places[name]}"


def stores_json(stores: Mapping[str, "Manifest"], places: Mapping[str, Path]) -> dict[str, Any]:
    """The same for machines; nothing where there is no store."""
    if not stores:
        return {}
    return {
        "stores": {
            name: {
                "store": str(places[name]),
                **manifest.counts.model_dump(mode="json", exclude_unset=True),
            }
            for name, manifest in stores.items()
        }
    }


# A bar chart of plain characters.

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


def pool_text(manifest: "Manifest") -> str:
    """The histogram and the sizes; where a side is empty, the outcomes and the probable cause."""
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
        "samples": manifest.source.answers,
        "problems": counts.prompts,
        **counts.model_dump(mode="json", exclude_unset=True, exclude={"prompts"}),
        "cut_off": cut_off_share(counts),
        "shortage": f"{missing}: {likely_cause(manifest)}" if missing else None,
    }
