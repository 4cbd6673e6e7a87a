"""verl's log of a step as the metrics of a step, under this package's names."""

from collections.abc import Mapping, Sequence
from math import nan

from dph.engines.stages.engine_log import Logged
from dph.recipe import Recipe
from dph.runs.train.metrics import Metrics

SAME: Mapping[str, str] = {
    "entropy": "actor/entropy",
    "policy_loss": "actor/pg_loss",
    "clipped_high": "actor/pg_clipfrac",
    "clipped_low": "actor/pg_clipfrac_lower",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    "completion_tokens": "response_length/mean",
    "unfinished": "response_length/clip_ratio",
    "seconds": "timing_s/step",
    "seconds_sampling": "timing_s/gen",
    "seconds_update": "timing_s/update_actor",
}
"""Our names, and verl's for the same."""
VERDICT = "dph/"
"""What the trainers of this package log of verdicts (``answer_metrics``)."""
_OF_VERDICTS = ("reward", "correct", "zero_variance")
_ANCHOR, _PENALTY = "actor/dph/divergence", "actor/dph/penalty/"


def step_of_verl(logged: Sequence[Logged], recipe: Recipe) -> Metrics:
    """The metrics of one step; ``logged`` is verl's one line of it.

    ``clipped_high`` is verl's share of clipped tokens on either side, ``clipped_low`` that of its
    dual clip. ``unfinished`` counts answers as long as the limit.
    """
    (line,) = logged
    train, objective = recipe.train, recipe.objective
    anchors = {
        name: _value(line, _ANCHOR if len(objective.active_anchors) == 1 else f"{_ANCHOR}/{name}")
        for name in objective.active_anchors
    }
    found = {ours: _value(line, theirs) for ours, theirs in SAME.items()}
    tokens = found["completion_tokens"] * train.problems_per_step * train.samples_per_problem
    penalties = [float(v) for k, v in line.items() if k.startswith(_PENALTY)]
    return {
        **{name: _value(line, f"{VERDICT}{name}") for name in _OF_VERDICTS},
        **found,
        "kl_penalty": float(line.get("actor/kl_loss", 0.0)) + sum(penalties),
        "divergence": sum(anchors.values()),
        **({f"anchor_{n}": v for n, v in anchors.items()} if len(anchors) > 1 else {}),
        "tokens": tokens,
        "tokens_per_second": tokens / found["seconds"] if found["seconds"] else nan,
        **{
            key.removeprefix(VERDICT): float(value)
            for key, value in sorted(line.items())
            if key.startswith(f"{VERDICT}outcome_")
        },
    }


def _value(line: Logged, name: str) -> float:
    value = line.get(name)
    return nan if value is None else float(value)
