"""Peak memory of training steps, ours beside TRL's, each side in a process of its own."""

from lab.benchmarks.speed.memory import Peak, measure_peak
from lab.benchmarks.speed.rows import describe
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import FULL_STEP


def measure(case: str, run: Run) -> list[Row]:
    """Peaks of both processes, imports and weights included, and what the steps added.

    A third process is TRL with gradient checkpointing, which is its default.
    """
    sides = {"ours": "ours", "peer": "trl", "peer_checkpointed": "trl_checkpointed"}
    peaks: dict[str, Peak] = {name: measure_peak(side, case, run) for name, side in sides.items()}
    found: dict[str, float] = {f"{name}_peak_mib": round(p.peak) for name, p in peaks.items()}
    found |= {f"{name}_added_mib": round(p.added) for name, p in peaks.items()}
    return [
        describe(
            "step_memory",
            case,
            run,
            shape=str(run.world(FULL_STEP[case]).shape),
            peer="TRL GRPOTrainer",
            ratio=peaks["peer"].peak / peaks["ours"].peak,
            peak_share=peaks["ours"].peak / peaks["peer"].peak,
            repeats=1,
            **found,
        )
    ]
