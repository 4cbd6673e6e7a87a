"""Stores in a few lines each: how much they hold, and how far their answers agree."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dph.runs.presample.stores.manifest import StoreManifest


def stores_text(stores: Mapping[str, "StoreManifest"], places: Mapping[str, Path]) -> Iterator[str]:
    """Sizes, agreement where answers were compared, and the place of every store."""
    for name, manifest in stores.items():
        counts = manifest.counts
        yield (
            f"store {name}: {counts.answers} answers to {counts.prompts} prompts, {counts.tokens} "
            f"tokens, {counts.bytes_per_token:.1f} bytes a token, {counts.cut_off} cut off"
        )
        if counts.prompts_that_agree is not None and counts.agreement is not None:
            yield (
                f"  of {100 * counts.prompts_that_agree:.1f}% of the prompts two answers or more "
                f"agree; an answer agrees with {100 * counts.agreement:.1f}% of the others"
            )
        if counts.agreed_wrong is not None:
            yield (
                f"  where gold answers are known ({counts.labelled} prompts), the result that most "
                f"agree on is wrong for {100 * counts.agreed_wrong:.1f}%"
            )
        yield f"store: {places[name]}"


def stores_json(
    stores: Mapping[str, "StoreManifest"], places: Mapping[str, Path]
) -> dict[str, Any]:
    """The same for machines; nothing where there is no store."""
    if not stores:
        return {}
    return {
        "stores": {
            name: {"store": str(places[name]), **manifest.counts.model_dump(mode="json")}
            for name, manifest in stores.items()
        }
    }
