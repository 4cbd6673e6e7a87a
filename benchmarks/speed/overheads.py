"""What rehearsal and what a reference model add to a step: all methods turn by turn, ours alone."""

import copy

from benchmarks.speed.ours import Ours
from benchmarks.speed.rows import make_row
from benchmarks.speed.runs import Row, Run
from benchmarks.speed.shapes import FULL_STEP
from benchmarks.speed.timing import interleaved
from benchmarks.speed.world import World, build_model
from dph.settings import ObjectiveSettings

POLICY_ROWS_PER_STORED = 8
METHODS = {
    "grpo": ObjectiveSettings(),
    "dph_f": ObjectiveSettings(divergence="forward_kl", eta=0.01),
    "dph_js": ObjectiveSettings(divergence="jensen_shannon", eta=0.2),
    "rkl": ObjectiveSettings(kl_coefficient=0.01),
}


APART = "_apart"
"""Cases with this ending run without shared prompts, GRPO as well."""


def measure(case: str, run: Run) -> list[Row]:
    """Steps of DPH-F, DPH-JS and RKL over steps of GRPO, of the same rollout's shape."""
    shape, apart = case.removesuffix(APART), case.endswith(APART)
    world = run.world(FULL_STEP[shape])
    sides = {method: _ours(world, method, apart=apart) for method in METHODS}
    times = interleaved({m: side.step for m, side in sides.items()}, repeats=run.repeats)
    grpo = times.pop("grpo")
    return [
        make_row(
            "reference_overhead" if method == "rkl" else "rehearsal_overhead",
            f"{case}/{method}",
            run,
            shape=f"{world.shape}{', no sharing' if apart else ''}",
            method=method,
            ours=timing,
            peer="GRPO, ours",
            peer_timing=grpo,
            overhead=timing.median / grpo.median,
            stored_rows=len(sides[method].rehearsal),
            policy_tokens=_policy_tokens(world, sides[method], apart=apart),
            stored_tokens=sum(
                len(s.prompt_ids) + len(s.completion_ids) for s in sides[method].rehearsal
            ),
        )
        for method, timing in times.items()
    ]


def _ours(world: World, method: str, *, apart: bool) -> Ours:
    model, objective = build_model(world), METHODS[method]
    return Ours(
        world,
        model,
        objective=objective,
        reference=copy.deepcopy(model).eval() if objective.needs_reference_model else None,
        rehearsal_rows=world.shape.rows // POLICY_ROWS_PER_STORED if objective.rehearses else 0,
        shared_prompts="never" if apart else "auto",
    )


def _policy_tokens(world: World, ours: Ours, *, apart: bool) -> int:
    """Prompt tokens, counted as often as they are run, and completion tokens of a mean rollout."""
    steps = len(ours.lengths) / world.shape.rows
    prompts = world.shape.rows if apart else world.shape.prompts
    return prompts * world.shape.prompt + round(sum(ours.lengths) / steps)
