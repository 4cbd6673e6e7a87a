"""A whole training step, ours beside TRL's, and the update in it."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from dph.runs.train.rows import PolicyRow
from lab.benchmarks.speed.flops import forward_flops, groups_of, update_flops
from lab.benchmarks.speed.machine import matmul_rate
from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.peer_trl import (
    PEER,
    FirstStep,
    PeerSettings,
    Steps,
    make_trainer,
    run_trl,
)
from lab.benchmarks.speed.profile import spent_in_update
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import FULL_STEP
from lab.benchmarks.speed.timing import StepTime, Timing, relative_error
from lab.benchmarks.speed.world import World, build_model


class GradientsDifferError(RuntimeError):
    """Both sides do not compute the same thing, so their times cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Steps of both sides, turn by turn in one process."""

    ours: tuple[StepTime, ...]
    our_lengths: tuple[int, ...]
    peer: Steps
    gradient_error: float

    def timings(self, part: str) -> tuple[Timing, Timing]:
        """Ours and the peer's time of ``step`` or ``update``."""
        ours, peer = (tuple(getattr(t, part) for t in ts) for ts in (self.ours, self.peer.times))
        return Timing(ours), Timing(peer)


def measure(case: str, run: Run) -> list[Row]:
    """The step and its update at one shape."""
    world = run.world(FULL_STEP[case])
    both = side_by_side(world, run)
    rate = matmul_rate(run.device, run.dtype)
    flops = _flops(world, both)
    rows = []
    for bench, part in (("full_step", "step"), ("update", "update")):
        ours, peer = both.timings(part)
        rows.append(
            make_row(
                bench,
                case,
                run,
                shape=str(world.shape),
                ours=ours,
                peer=PEER,
                peer_timing=peer,
                gradient_error=both.gradient_error,
                ours_mean_length=fmean(both.our_lengths),
                peer_mean_length=fmean(both.peer.lengths),
                floor_s=flops[part] / rate,
                useful_share=flops[part] / rate / ours.median,
                matmul_gflops=rate / 1e9,
            )
        )
    rows[1]["spent"] = spent_in_update(world)
    return rows


def side_by_side(world: World, run: Run) -> SideBySide:
    """Check that both sides compute the same gradient, then time their steps in turn.

    Raises:
        GradientsDifferError: on the peer's first rollout the gradients differ by more than the run
            tolerates; nothing is timed.
    """
    ours = Ours(world, build_model(world))
    times: list[StepTime] = []
    errors: list[float] = []

    def check(first: FirstStep) -> None:
        errors.append(gradient_error(world, first))
        if not errors[0] <= run.gradient_tolerance:
            raise GradientsDifferError(
                f"{world.shape}: on the same rollout the gradients differ by {errors[0]:.2g}, "
                f"more than {run.gradient_tolerance:g}"
            )

    def turn(_: int) -> None:
        times.append(ours.step())

    with tempfile.TemporaryDirectory(prefix="dph-bench-") as scratch:
        settings = PeerSettings(steps=run.repeats)
        trainer = make_trainer(world, build_model(world), Path(scratch), settings)
        peer = run_trl(trainer, turn=turn, on_first=check)
    return SideBySide(
        ours=tuple(times[1:]),
        our_lengths=tuple(ours.lengths),
        peer=peer,
        gradient_error=errors[0],
    )


def gradient_error(world: World, first: FirstStep) -> float:
    """The relative difference of our gradient to the peer's, on the peer's weights and rollout."""
    model = build_model(world)
    model.load_state_dict(first.weights, strict=False)  # tied weights have one name there
    ours = Ours(world, model)
    groups = []
    for rows in rows_of(first):
        prompts, completions = ([r.prompt_ids for r in rows], [r.completion_ids for r in rows])
        old = ours.forward.logprobs(model, prompts, completions)
        groups.append([replace(r, old_logprobs=x) for r, x in zip(rows, old, strict=True)])
    return relative_error(ours.gradients(groups), first.gradients)


def rows_of(first: FirstStep) -> list[list[PolicyRow]]:
    """The rollout of the peer's first step as our groups; old log-probs are filled in later."""
    rows = []
    for batch in first.micro_batches:
        for index, advantage in enumerate(batch["advantages"].tolist()):
            prompt = batch["prompt_ids"][index][batch["prompt_mask"][index].bool()]
            completion = batch["completion_ids"][index][batch["completion_mask"][index].bool()]
            rows.append(
                PolicyRow(
                    prompt_ids=tuple(prompt.tolist()),
                    completion_ids=tuple(completion.tolist()),
                    advantage=advantage,
                    old_logprobs=(),
                )
            )
    groups: dict[tuple[int, ...], list[PolicyRow]] = {}
    for row in rows:
        groups.setdefault(row.prompt_ids, []).append(row)
    return list(groups.values())


def _flops(world: World, both: SideBySide) -> dict[str, float]:
    """Useful operations of one step and of its update, a mean over all steps."""
    shape = world.shape
    groups = groups_of(shape.distinct_prompt, both.our_lengths, shape.samples)
    steps = len(both.our_lengths) / shape.rows
    update = update_flops(world.size, groups) / steps
    return {"step": forward_flops(world.size, groups) / steps + update, "update": update}
