"""How the cost of a step grows: one thing varies, the rest stays, ours beside TRL's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lab.benchmarks.speed.full_step import PEER, side_by_side
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import FIVE_MILLION, ModelSize, Shape

BASE = Shape(prompt=128, completion=32, prompts=1)


@dataclass(frozen=True, slots=True)
class Curve:
    """The values of what varies, and how each makes a shape or a model."""

    values: tuple[int, ...]
    shape: Callable[[int], Shape] = lambda _: BASE
    size: Callable[[int], ModelSize] = lambda _: FIVE_MILLION


CURVES: Mapping[str, Curve] = {
    "samples": Curve((4, 16, 32), shape=lambda n: replace(BASE, samples=n)),
    "prompt": Curve((64, 256, 512, 768), shape=lambda n: replace(BASE, prompt=n)),
    "completion": Curve((8, 32, 128), shape=lambda n: replace(BASE, completion=n)),
    "vocabulary": Curve((1024, 8192, 65536), size=lambda n: replace(FIVE_MILLION, vocabulary=n)),
    "hidden": Curve(
        (128, 256, 512), size=lambda n: replace(FIVE_MILLION, hidden=n, intermediate=11 * n // 4)
    ),
}


def measure(case: str, run: Run) -> list[Row]:
    """One row a value, and for prompt lengths the slopes."""
    curve = CURVES[case]
    rows = [_point(case, value, curve, run) for value in curve.values[: 2 if run.quick else None]]
    if case == "prompt":
        rows = _with_slopes(rows)
    return rows


def _point(case: str, value: int, curve: Curve, run: Run) -> Row:
    world = run.world(curve.shape(value), curve.size(value))
    both = side_by_side(world, run)
    ours, peer = both.timings("step")
    return make_row(
        "growth",
        f"{case}/{value}",
        run,
        shape=str(world.shape),
        curve=case,
        value=value,
        ours=ours,
        peer=PEER,
        peer_timing=peer,
        gradient_error=both.gradient_error,
    )


def _with_slopes(rows: list[Row]) -> list[Row]:
    """Least-squares seconds a prompt token of both sides, in every row of the curve."""
    values = [row["value"] for row in rows]
    ours, peer = (
        float(np.polyfit(values, [r[s] for r in rows], 1)[0]) for s in ("ours_s", "peer_s")
    )
    slopes = {"ours_slope": ours, "peer_slope": peer, "slope_ratio": ours / peer}
    return [row | {k: float(f"{v:.4g}") for k, v in slopes.items()} for row in rows]
