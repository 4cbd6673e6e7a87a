"""How the peer's update depends on the rows of its micro-batch, to give it the best of them."""

import tempfile
from pathlib import Path

from lab.benchmarks.speed.peer_trl import PeerSettings, make_trainer, run_trl
from lab.benchmarks.speed.rows import describe
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import FULL_STEP
from lab.benchmarks.speed.timing import Timing
from lab.benchmarks.speed.world import World, build_model

ROWS = (8, 16, 32)
"""TRL's default, what the suite uses, and twice that."""


def measure(case: str, run: Run) -> list[Row]:
    """The peer's steps and updates, one row a micro-batch; ratio is over the suite's choice."""
    world = run.world(FULL_STEP[case])
    times = {rows: _times(world, rows, run) for rows in ROWS}
    chosen = times[16][0].median
    return [
        describe(
            "trl_batches",
            f"{case}/{rows}",
            run,
            shape=str(world.shape),
            peer="TRL GRPOTrainer",
            micro_batch_rows=rows,
            peer_s=step.median,
            peer_range=step.range,
            peer_update_s=update.median,
            ratio=step.median / chosen,
            repeats=run.repeats,
        )
        for rows, (step, update) in times.items()
    ]


def _times(world: World, rows: int, run: Run) -> tuple[Timing, Timing]:
    """Steps and updates."""
    with tempfile.TemporaryDirectory(prefix="dph-bench-") as scratch:
        settings = PeerSettings(steps=run.repeats, micro_rows=rows)
        seen = run_trl(make_trainer(world, build_model(world), Path(scratch), settings)).times
    return Timing(tuple(t.step for t in seen)), Timing(tuple(t.update for t in seen))
