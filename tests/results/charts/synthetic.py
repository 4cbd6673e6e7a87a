"""Made-up results with the shape of a quickstart run."""

import math
import random

from dph.runs.evaluate.comparison import ComparisonRow
from dph.runs.evaluate.intervals import Difference
from dph.runs.evaluate.metrics import effective_styles

STYLES = ("plain", "cte", "nested", "alias", "steps")
SETS = ("in_domain", "cross_domain", "arithmetic")
NAMES = ("grpo", "dph_f", "dph_js", "dapo", "rkl_0.01", "rkl_0.3", "alpha", "dph_js_definition")
KS = (1, 2, 4, 8, 16, 32)
COLLAPSING = ("grpo", "dapo", "rkl_0.01")


def set_summary(name, set_name, seed=0):
    """One set: collapsing methods start higher and rise less with k."""
    rng = random.Random(f"{name}/{set_name}/{seed}")
    shift = {"in_domain": 0.0, "cross_domain": -0.04, "arithmetic": -0.1}[set_name]
    low, high = (0.45, 0.96) if name == "base" else (0.61, 0.90)
    if name in COLLAPSING:
        low, high = 0.65, 0.80
    curve = {
        str(k): low + shift + (high - low) * math.log2(k) / 5 + rng.uniform(-0.012, 0.012)
        for k in KS
    }
    weights = [8.0 if name in COLLAPSING and s == "plain" else 0.12 for s in STYLES]
    if name not in COLLAPSING:
        weights = [1 + rng.uniform(0, 1.5) for _ in STYLES]
    shares = {s: w / sum(weights) for s, w in zip(STYLES, weights, strict=True)}
    ci = {f"pass_at_{k}": [max(0, v - 0.035), min(1, v + 0.03)] for k, v in curve.items()}
    mean = curve["1"]
    return {
        "problems": 150,
        "greedy": mean + 0.05,
        "mean": mean,
        "pass_at_k": curve,
        "ci95": {"greedy": [mean, mean + 0.1], "mean": [mean - 0.05, mean + 0.05], **ci},
        "keep": 0.9,
        "explore": 0.4,
        "keep_null": 0.95,
        "explore_null": 0.3,
        "styles": {} if set_name == "arithmetic" else shares,
        "effective_styles": None if set_name == "arithmetic" else effective_styles(shares),
    }


def make_summary(names, seed=0):
    models = {
        name: {"sets": {s: set_summary(name, s, seed) for s in SETS}} for name in ("base", *names)
    }
    return {"base": models.pop("base"), "methods": models}


def comparison_row(metric, run="grpo", *apart, set_name="dev"):
    """A row of 0.5 (0.4 to 0.6), this far ``apart`` from the baseline (mean, lo, hi), if at all."""
    difference = None
    if apart:
        mean, lo, hi = apart
        difference = Difference(mean=mean, lo=lo, hi=hi)
    return ComparisonRow(
        set_name=set_name, metric=metric, run=run, value=0.5, lo=0.4, hi=0.6, difference=difference
    )


def make_metrics(names, steps=40):
    rng = random.Random(0)
    base, rows = 4.7, {name: [] for name in names}
    for name, log in rows.items():
        end = 1.1 if name in COLLAPSING else 4.2
        for step in range(1, steps + 1):
            styles = end + (base - end) * math.exp(-step / 8) + rng.gauss(0, 0.06)
            log.append({"step": step, "effective_styles": max(1.0, styles)})
    return rows
