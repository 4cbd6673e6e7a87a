"""What rehearsal and what a reference model add to a step: all methods turn by turn, ours alone."""

import copy
from collections.abc import Sequence

from dph.model.forward.packing import prefix_forest
from dph.recipe import ObjectiveSettings
from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import OVERHEADS
from lab.benchmarks.speed.timing import interleaved
from lab.benchmarks.speed.world import World, build_model

POLICY_ROWS_PER_STORED = 8
_TERMS = {
    "grpo": {},
    "dph_f": {"divergence": "forward_kl", "eta": 0.01},
    "dph_js": {"divergence": "jensen_shannon", "eta": 0.2},
    "rkl": {"kl_coefficient": 0.01},
}
METHODS = {method: ObjectiveSettings.model_validate(terms) for method, terms in _TERMS.items()}

APART = "_apart"
"""Cases with this ending run without shared prompts, GRPO as well."""


def measure(case: str, run: Run) -> list[Row]:
    """Steps of each method over steps of GRPO, of the same rollout's shape."""
    shape, apart = case.removesuffix(APART), case.endswith(APART)
    world = run.world(OVERHEADS[shape])
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
            stored_tokens=_stored_tokens(sides[method], apart=apart),
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
    """Tokens of a mean rollout, its prompts counted as often as they are run."""
    steps = len(ours.lengths) / world.shape.rows
    prompts = _tokens(ours.prompts * (world.shape.samples if apart else 1), apart=apart)
    return prompts + round(sum(ours.lengths) / steps)


def _stored_tokens(ours: Ours, *, apart: bool) -> int:
    """What the stored answers add to that."""
    stored = [(*sample.prompt_ids, *sample.completion_ids) for sample in ours.rehearsal]
    return _tokens([*ours.prompts, *stored], apart=apart) - _tokens(ours.prompts, apart=apart)


def _tokens(rows: Sequence[tuple[int, ...]], *, apart: bool) -> int:
    return sum(map(len, rows)) if apart else sum(root.tokens for root in prefix_forest(rows))
