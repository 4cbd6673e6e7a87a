"""TRL's log of a rollout's optimizer steps as the metrics of a step, under this package's names."""

from collections.abc import Mapping, Sequence
from math import nan
from statistics import fmean
from typing import Any

from dph.engines.stages.engine_log import Logged
from dph.recipe import Recipe
from dph.runs.train.metrics import Metrics

SECONDS = "dph/seconds"
"""Of an optimizer step with what came before it; added to TRL's log by ``run_recipe``."""
VERDICT = "dph/"
"""What shares of verdicts are logged under: ``dph/correct``, ``dph/outcome_wrong``."""

SAME: Mapping[str, str] = {
    "reward": "reward",
    "entropy": "entropy",
    "zero_variance": "frac_reward_zero_std",
    "clipped_low": "clip_ratio/low_mean",
    "clipped_high": "clip_ratio/high_mean",
    "grad_norm": "grad_norm",
    "completion_tokens": "completions/mean_length",
    "unfinished": "completions/clipped_ratio",
}
"""Our names, and TRL's for the same: means over the lines of a rollout that have them."""


def step_of_trl(logged: Sequence[Logged], recipe: Recipe) -> Metrics:
    """The metrics of one rollout; ``logged`` are the lines of its optimizer steps.

    ``policy_loss`` is the loss that TRL reports without the weighted penalty and anchors.
    ``entropy`` is the mean over whole next-token distributions, where `dph train` has -log pi of
    the sampled tokens: two estimates of the same number.
    """
    train, objective = recipe.train, recipe.objective
    kl = _mean(logged, "kl", missing=0.0)
    anchors = {n: _mean(logged, f"{n}/loss", missing=0.0) for n in objective.active_anchors}
    weights = {name: anchor.weight for name, anchor in objective.active_anchors.items()}
    beta = sum(penalty.weight for penalty in objective.active_penalties.values())
    beside = beta * kl + sum(weights[name] * value for name, value in anchors.items())
    seconds = sum(float(line[SECONDS]) for line in logged)
    length = _mean(logged, SAME["completion_tokens"])
    tokens = length * train.problems_per_step * train.samples_per_problem
    return {
        **{ours: _mean(logged, theirs) for ours, theirs in SAME.items()},
        **_verdicts(logged),
        "policy_loss": _mean(logged, "loss") - beside,
        "kl_penalty": kl,
        "divergence": sum(anchors.values()),
        **({f"anchor_{n}": v for n, v in anchors.items()} if len(anchors) > 1 else {}),
        "learning_rate": float(logged[0].get("learning_rate", nan)),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds if seconds else nan,
    }


def _verdicts(logged: Sequence[Logged]) -> dict[str, float]:
    """Shares of outcomes: those that came up, and how many answers were right."""
    names = {name for line in logged for name in line if name.startswith(f"{VERDICT}outcome_")}
    shares = {name.removeprefix(VERDICT): _mean(logged, name) for name in sorted(names)}
    return {
        "correct": _mean(logged, f"{VERDICT}correct"),
        **{name: share for name, share in shares.items() if share},
    }


def _mean(logged: Sequence[Logged], name: str, *, missing: float = nan) -> float:
    values: list[Any] = [line[name] for line in logged if line.get(name) is not None]
    return fmean(map(float, values)) if values else missing
