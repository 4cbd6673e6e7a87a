"""What an ablation found: bits a byte by arm, differences to raw paired by seed, as a table."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from dph.corpus import Corpus
from dph.lab.ablation.pools import RAW
from dph.lab.ablation.settings import AblationSettings
from dph.lab.ablation.texts import Heldout
from dph.results.charts.aggregate import t_interval

SCHEMA = 1

Cells = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""By model and arm, seed by seed."""


def outcome(
    settings: AblationSettings, pools: Mapping[str, Corpus], heldout: Heldout, cells: Cells
) -> dict[str, Any]:
    """All that was measured, as JSON.

    ``bits_per_byte`` are of held-out code, a list over the seeds; ``difference`` is the arm's minus
    that of raw with the same seed, its mean and 95% t-interval over the seeds: below 0 the arm is
    better.
    """
    return {
        "schema": SCHEMA,
        "settings": settings.model_dump(mode="json"),
        "heldout": {
            "documents": heldout.documents,
            "repeated": heldout.repeated,
            "tokens": heldout.sequences.size,
            "bytes_per_token": heldout.bytes_per_token,
        },
        "arms": {
            arm: {
                "documents": pool.manifest.documents,
                "bytes": pool.manifest.bytes,
                "content": pool.manifest.content,
                "tokens": next(iter(cells.values()))[arm][0]["pool_tokens"],
            }
            for arm, pool in pools.items()
        },
        "models": {name: _model(arms, heldout.bytes_per_token) for name, arms in cells.items()},
    }


def _model(
    arms: Mapping[str, Sequence[Mapping[str, Any]]], bytes_per_token: float
) -> dict[str, Any]:
    bits = {
        arm: [cell["bits_per_token"] / bytes_per_token for cell in cells]
        for arm, cells in arms.items()
    }
    return {arm: _arm(values, bits[RAW]) for arm, values in bits.items()}


def _arm(values: Sequence[float], raw: Sequence[float]) -> dict[str, Any]:
    differences = [one - other for one, other in zip(values, raw, strict=True)]
    low, high = t_interval(differences)
    return {
        "bits_per_byte": list(values),
        "mean": fmean(values),
        "difference": {"mean": fmean(differences), "ci95": [low, high]},
    }


def table(result: Mapping[str, Any]) -> str:
    """The outcome as Markdown: a row an arm."""
    models = list(result["models"])
    header = ["arm", "documents", "MB", "passes"]
    for name in models:
        header += [f"{name}, bits a byte", "minus raw [95%]"]
    learnt = result["settings"]["tokens"]
    rows = []
    for arm, pool in result["arms"].items():
        row = [arm, str(pool["documents"]), f"{pool['bytes'] / 1e6:.2f}"]
        row.append(f"{learnt / pool['tokens']:.2f}")
        for name in models:
            row += _cells(arm, result["models"][name][arm])
        rows.append(row)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(arm: str, found: Mapping[str, Any]) -> list[str]:
    difference = found["difference"]
    low, high = difference["ci95"]
    paired = "" if arm == RAW else f"{difference['mean']:+.3f} [{low:+.3f}, {high:+.3f}]"
    return [f"{found['mean']:.3f}", paired]
