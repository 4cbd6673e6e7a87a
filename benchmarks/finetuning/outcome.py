"""Rows of the arms of fine-tuning: the rate that each chose, scores, and the rule's comparisons."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dph.results.over_seeds import mean_over_seeds, paired_t, t_quantile

ROWS = Path(__file__).with_name("rows.jsonl")
POWER = "found with power 80%, by development (report) seeds"
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
    lines = [_line("arm", "rate", *metrics), _line("---", *["---:"] * 3)]
    for arm in rule["arms"]:
        rate = chosen_rate(rule, arm["name"], rows)
        cells = [str(mean_over_seeds(_over(rule, rows, arm["name"], name))) for name in metrics]
        lines.append(_line(arm["name"], f"{rate:g}", *cells))
    lines += ["", _line("comparison", *metrics, "p", POWER)]
    lines.append(_line("---", *["---:"] * 4))
    lines += _comparisons(rule, rows, metrics)
    return "\n".join(lines) + "\n"


def _comparisons(
    rule: Mapping[str, Any], rows: Sequence[Row], metrics: Sequence[str]
) -> Iterator[str]:
    for pair in rule["compare"]:
        a, b = pair["a"], pair["b"]
        cells = []
        for metric in metrics:
            found = mean_over_seeds(_differences(rule, rows, pair, metric, "report"))
            cells.append(f"{found.mean:+.1f} ± {found.half or 0.0:.1f}")
        main = metrics[0]
        tested = paired_t(_over(rule, rows, a, main), _over(rule, rows, b, main))
        smallest = [
            _smallest(_differences(rule, rows, pair, main, seeds), len(rule["report"]))
            for seeds in ("development", "report")
        ]
        power = "from {:.1f} ({:.1f})".format(*smallest)
        yield _line(f"{a} minus {b}", *cells, f"{tested.p_value:.3f}", power)


def _over(
    rule: Mapping[str, Any], rows: Sequence[Row], arm: str, metric: str, seeds: str = "report"
) -> list[float]:
    rate = chosen_rate(rule, arm, rows)
    found = {row["seed"]: row for row in rows if (row["arm"], row["rate"]) == (arm, rate)}
    return [found[seed][metric] for seed in rule[seeds] if seed in found]


def _differences(
    rule: Mapping[str, Any], rows: Sequence[Row], pair: Mapping[str, str], metric: str, seeds: str
) -> list[float]:
    sides = (_over(rule, rows, pair[side], metric, seeds) for side in "ab")
    return [a - b for a, b in zip(*sides, strict=True)]


def _smallest(differences: Sequence[float], seeds: int) -> float:
    """The smallest difference that so many seeds find with 80%, by the spread of ``differences``.

    Equation: (t_0.975 + t_0.8) s / sqrt(n), as in ``dph.lab.ablation.outcome``.
    """
    factor = (t_quantile(0.975, seeds - 1) + t_quantile(0.8, seeds - 1)) / sqrt(seeds)
    return factor * stdev(differences)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
