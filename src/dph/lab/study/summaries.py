"""What a method scored on a set, in the form of evaluation.json, which pictures take."""

from math import inf
from typing import Any

from dph.lab.study.results import Estimate
from dph.lab.study.tables import Report

_PLAIN = {
    "greedy": "greedy",
    "mean": "mean",
    "keep": "keep",
    "explore": "explore",
    "effective_styles": "styles",
}
"""By the name in evaluation.json, what a study calls it."""


def summary_over_seeds(report: Report, world: str, label: str, of: str) -> dict[str, Any]:
    """Means over the report seeds, with intervals over seeds; what is not known is None."""
    of_study = _PLAIN | {f"pass_at_{k}": f"pass@{k}" for k in report.results.ks(world)}
    found = {
        name: estimate
        for name, metric in of_study.items()
        if (estimate := report.results.estimate(world, label, metric, [of])) is not None
    }
    means = {name: estimate.mean for name, estimate in found.items()}
    return {
        **{name: means.pop(name, None) for name in _PLAIN},
        "pass_at_k": {name.removeprefix("pass_at_"): mean for name, mean in means.items()},
        "ci95": {name: _interval(name, e) for name, e in found.items() if e.half is not None},
    }


def _interval(name: str, estimate: Estimate) -> tuple[float, float]:
    """Cut to what the metric can be."""
    low, high = (1.0, inf) if name == "effective_styles" else (0.0, 1.0)
    half = estimate.half or 0.0
    return max(low, estimate.mean - half), min(high, estimate.mean + half)
