"""Rows of the arms of fine-tuning: the rate that each chose, scores, and the rule's comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dph._base.files.rows import json_rows
from dph.results.charts.text_table import markdown_rows
from dph.results.over_seeds import mean_over_seeds, paired_t, smallest_found

ROWS = Path(__file__).with_name("rows.jsonl")
POWER = "found with power 80%, by development (report) seeds"
Row = Mapping[str, Any]


def read_rows() -> list[Row]:
    """The rows until now."""
    return [row for _, row in json_rows(ROWS)] if ROWS.is_file() else []


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
    scores = markdown_rows(("arm", "rate", *metrics), _scores(rule, rows, metrics))
    compared = markdown_rows(
        ("comparison", *metrics, "p", POWER), _comparisons(rule, rows, metrics)
    )
    return f"{scores}\n\n{compared}\n"


def _scores(
    rule: Mapping[str, Any], rows: Sequence[Row], metrics: Sequence[str]
) -> Iterator[list[object]]:
    for arm in rule["arms"]:
        name = arm["name"]
        means = [mean_over_seeds(_over(rule, rows, name, metric)) for metric in metrics]
        yield [name, f"{chosen_rate(rule, name, rows):g}", *means]


def _comparisons(
    rule: Mapping[str, Any], rows: Sequence[Row], metrics: Sequence[str]
) -> Iterator[list[object]]:
    for pair in rule["compare"]:
        a, b = pair["a"], pair["b"]
        means = []
        for metric in metrics:
            found = mean_over_seeds(_differences(rule, rows, pair, metric, "report"))
            means.append(found.signed())
        main = metrics[0]
        tested = paired_t(_over(rule, rows, a, main), _over(rule, rows, b, main))
        spreads = [
            stdev(_differences(rule, rows, pair, main, seeds))
            for seeds in ("development", "report")
        ]
        smallest = [smallest_found(spread, len(rule["report"])) for spread in spreads]
        power = "from {:.1f} ({:.1f})".format(*smallest)
        yield [f"{a} minus {b}", *means, f"{tested.p_value:.3f}", power]


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
