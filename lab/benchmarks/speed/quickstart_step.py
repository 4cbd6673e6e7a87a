"""The quickstart's step with prompts shared where that pays, over the same step without sharing.

The quickstart has short prompts and a model of 0.36 million weights, where sharing may cost.
"""

from collections.abc import Callable

from dph.model.forward.sharing import Sharing
from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import QUICKSTART, QUICKSTART_STEP
from lab.benchmarks.speed.timing import interleaved
from lab.benchmarks.speed.world import build_model


def measure(case: str, run: Run) -> list[Row]:
    """Steps of both settings in turn."""
    world = run.world(QUICKSTART_STEP[case], QUICKSTART)
    settings: tuple[Sharing, ...] = ("auto", "never")
    sides: dict[str, Callable[[], object]] = {
        sharing: Ours(world, build_model(world), shared_prompts=sharing).step
        for sharing in settings
    }
    times = interleaved(sides, repeats=3 * run.repeats)
    return [
        make_row(
            "quickstart_step",
            case,
            run,
            shape=str(world.shape),
            ours=times["auto"],
            peer="ours, no sharing",
            peer_timing=times["never"],
        )
    ]
