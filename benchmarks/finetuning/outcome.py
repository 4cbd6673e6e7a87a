"""Rows of the arms of fine-tuning: the rate that each chose, scores, and the rule's comparisons."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dph.results.over_seeds import mean_over_seeds, paired_t, t_quantile

ROWS = Path(__file__).with_name("rows.jsonl")
Row = Mapping[str, Any]


def read_rows() -> list[Row]:
    """The rows until now."""
    text = ROWS.read_text(encoding="utf-8") if ROWS.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def chosen_rate(rule: Mapping[str, Any], arm: str, rows: Sequence[Row]) -> float:
    """The better rate by the development seeds, of equals the smaller."""
    means = {}
    for rate in sorted(rule["rates"]):
        found = {r["seed"]: r for r in rows if (r["arm"], r["rate"]) == (arm, rate)}
        if missing := [seed for seed in rule["development"] if seed not in found]:
            raise SystemExit(f"{arm} has no row of development seed {missing[0]} at {rate:g}")
        means[rate] = fmean(found[seed][rule["metric"]] for seed in rule["development"])
    return max(means, key=means.__getitem__)


def tables(rule: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Scores of the arms at their rates, and the comparisons of the rule."""
    metrics = (rule["metric"], rule["also"])
    scores = {
        (arm["name"], metric): _over(rule, rows, arm["name"], metric)
        for arm in rule["arms"]
        for metric in metrics
    }
    lines = [_line("arm", "rate", *metrics), _line("---", *["---:"] * 3)]
    for arm in rule["arms"]:
        rate = chosen_rate(rule, arm["name"], rows)
        cells = [str(mean_over_seeds(scores[arm["name"], metric])) for metric in metrics]
        lines.append(_line(arm["name"], f"{rate:g}", *cells))
    lines += ["", _line("comparison", *metrics, "p", "found with power 80%")]
    lines.append(_line("---", *["---:"] * 4))
    lines += _comparisons(rule, rows, scores, metrics)
    return "\n".join(lines) + "\n"


def _comparisons(
    rule: Mapping[str, Any],
    rows: Sequence[Row],
    scores: Mapping[tuple[str, str], Sequence[float]],
    metrics: Sequence[str],
) -> Iterator[str]:
    for pair in rule["compare"]:
        cells = []
        for metric in metrics:
            pairs = zip(scores[pair["a"], metric], scores[pair["b"], metric], strict=True)
            found = mean_over_seeds([a - b for a, b in pairs])
            cells.append(f"{found.mean:+.1f} ± {found.half or 0.0:.1f}")
        tested = paired_t(*(scores[pair[side], metrics[0]] for side in "ab"))
        named = f"{pair['a']} minus {pair['b']}"
        smallest = f"from {_smallest(rule, rows, pair):.1f}"
        yield _line(named, *cells, f"{tested.p_value:.3f}", smallest)


def _over(rule: Mapping[str, Any], rows: Sequence[Row], arm: str, metric: str) -> list[float]:
    rate = chosen_rate(rule, arm, rows)
    found = {row["seed"]: row for row in rows if (row["arm"], row["rate"]) == (arm, rate)}
    return [found[seed][metric] for seed in rule["report"] if seed in found]


def _smallest(rule: Mapping[str, Any], rows: Sequence[Row], pair: Mapping[str, str]) -> float:
    """The smallest difference that is found with 80%, by the spread over the development seeds.

    Equation: (t_0.975 + t_0.8) s / sqrt(n), as in ``dph.lab.ablation.outcome``.
    """
    sides = []
    for side in "ab":
        rate = chosen_rate(rule, pair[side], rows)
        of = {row["seed"]: row for row in rows if (row["arm"], row["rate"]) == (pair[side], rate)}
        sides.append([of[seed][rule["metric"]] for seed in rule["development"]])
    spread = stdev(a - b for a, b in zip(*sides, strict=True))
    n = len(rule["report"])
    return float((t_quantile(0.975, n - 1) + t_quantile(0.8, n - 1)) * spread / n**0.5)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
