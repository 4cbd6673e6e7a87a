"""Results of an ablation: differences paired by seed, power, and what follows for each finding."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from dph.results.charts.text_table import markdown_rows
from dph.results.over_seeds import smallest_found, t_interval
from dph_corpus.ablation.arms import FAMILIES, ArmComparison

SCHEMA = 2
DEVELOPMENT, REPORT = "development", "report"
"""Seeds that tell how much a seed matters, and the seeds of the table."""
MEAN = "mean"
"""The unweighted mean over the held-out languages: what is compared."""

Row = Mapping[str, Any]
Bits = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Bits per byte by arm, language and seed."""


def outcome(lock: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """All that follows from the rows under a lock, as JSON.

    ``bits_per_byte`` are of held-out text, a list over the seeds that every arm has; ``difference``
    is the arm's minus that of the reference with the same seed, its mean and 95% t-interval: below
    0 the arm is better. A model with fewer than two such seeds is left out.

    Args:
        lock: content of ``rule.lock.json``.
        rows: rows of ``rows.jsonl``.
    """
    family = FAMILIES[lock["rule"]["arms"]]
    found: dict[str, Any] = {}
    findings = []
    for model in lock["rule"]["models"]:
        bits = bits_of(rows, model, REPORT)
        seeds = _whole_seeds(bits, family.arms)
        if len(seeds) < 2:
            continue
        reference = bits[family.reference]
        found[model] = {
            arm: {
                language: _arm(_of(values, seeds), _of(reference[language], seeds))
                for language, values in bits[arm].items()
            }
            for arm in family.arms
        }
        power = lock["power"].get(model, {})
        for each in family.comparisons:
            findings.append({"model": model} | _finding(each, bits, seeds, lock, power))
    return {
        "schema": SCHEMA,
        "rule_sha256": lock["rule_sha256"],
        "rule": lock["rule"],
        **{name: lock[name] for name in ("heldout", "pools", "power")},
        "models": found,
        "findings": findings,
    }


def bits_of(rows: Sequence[Row], model: str, split: str) -> Bits:
    """The bits per byte of one model's rows; ``MEAN`` is over the languages."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        if (row["model"], row["split"]) == (model, split):
            values = {**row["bits_per_byte"], MEAN: fmean(row["bits_per_byte"].values())}
            for language, value in values.items():
                found.setdefault(row["arm"], {}).setdefault(language, {})[row["seed"]] = value
    return found


def power_of(rows: Sequence[Row], settings: Mapping[str, Any]) -> dict[str, Any]:
    """By model and comparison, what the spread over development seeds says of its power."""
    family = FAMILIES[settings["arms"]]
    found: dict[str, Any] = {}
    for model in settings["models"]:
        bits = bits_of(rows, model, DEVELOPMENT)
        common = _whole_seeds(bits, family.arms)
        if len(common) < 2:
            continue
        for each in family.comparisons:
            spread = stdev(_differences(each, bits, common))
            found.setdefault(model, {})[name_of(each)] = {
                "deviation": spread,
                "smallest": smallest_found(spread, settings["seeds"]),
                "seeds": len(common),
            }
    return found


def name_of(comparison: ArmComparison) -> str:
    """Name of a comparison in files and tables."""
    return f"{comparison.arm} minus {comparison.against}"


def verdict(low: float, high: float, margin: float, paper: str) -> str:
    """Verdict on the paper's finding, by an interval of ``arm - against`` in bits per byte.

    The paper's arm is better if the whole interval is below 0. If it is above 0, or all of it is
    within ``margin`` of 0, the finding is not reproduced; otherwise nothing is decided.

    >>> verdict(-0.05, -0.01, 0.01, "a"), verdict(-0.05, 0.02, 0.01, "a")
    ('reproduced', 'not decidable here')
    >>> verdict(0.01, 0.02, 0.01, "a"), verdict(-0.002, 0.003, 0.01, "a")
    ('not reproduced: worse', 'not reproduced: equal within the margin')
    >>> verdict(0.01, 0.02, 0.01, "")
    'worse'
    """
    if high < 0:
        return "reproduced" if paper else "better"
    if low > 0:
        return "not reproduced: worse" if paper else "worse"
    if -margin < low and high < margin:
        return "not reproduced: equal within the margin" if paper else "equal within the margin"
    return "not decidable here"


def _finding(
    comparison: ArmComparison,
    bits: Bits,
    seeds: Sequence[int],
    lock: Mapping[str, Any],
    power: Mapping[str, Any],
) -> dict[str, Any]:
    differences = _differences(comparison, bits, seeds)
    low, high = t_interval(differences)
    return {
        "comparison": name_of(comparison),
        "paper": comparison.paper,
        "difference": {"mean": fmean(differences), "ci95": [low, high]},
        "smallest": power.get(name_of(comparison), {}).get("smallest"),
        "verdict": verdict(low, high, lock["rule"]["margin"], comparison.paper),
    }


def _whole_seeds(bits: Bits, arms: Mapping[str, Any]) -> list[int]:
    """The seeds that every arm has."""
    if not set(arms) <= set(bits):
        return []
    return sorted(set.intersection(*(set(bits[arm][MEAN]) for arm in arms)))


def _differences(comparison: ArmComparison, bits: Bits, seeds: Sequence[int]) -> list[float]:
    arm, against = bits[comparison.arm][MEAN], bits[comparison.against][MEAN]
    return [arm[seed] - against[seed] for seed in seeds]


def _of(values: Mapping[int, float], seeds: Sequence[int]) -> list[float]:
    return [values[seed] for seed in seeds]


def _arm(values: Sequence[float], reference: Sequence[float]) -> dict[str, Any]:
    differences = [one - other for one, other in zip(values, reference, strict=True)]
    low, high = t_interval(differences)
    return {
        "bits_per_byte": list(values),
        "mean": fmean(values),
        "difference": {"mean": fmean(differences), "ci95": [low, high]},
    }


# The outcome as Markdown.


def tables(result: Mapping[str, Any]) -> str:
    """The arms, each held-out language where there are several, and the comparisons."""
    found = [_arms_table(result)]
    if len(result["heldout"]) > 1 and result["models"]:
        found.append(_languages_table(result))
    if result["findings"]:
        found.append(_findings_table(result))
    return "\n\n".join(found)


def _arms_table(result: Mapping[str, Any]) -> str:
    family = FAMILIES[result["rule"]["arms"]]
    header = ["arm", "documents", "MB", "passes"]
    for name in result["models"]:
        header += [f"{name}, bits a byte", f"minus {family.reference} [95%]"]
    rows = []
    for arm in family.arms:
        pool = result["pools"][arm]
        row = [arm, str(pool["documents"]), f"{pool['bytes'] / 1e6:.2f}"]
        row.append(f"{result['rule']['tokens'] / pool['tokens']:.2f}")
        for arms in result["models"].values():
            difference = "" if arm == family.reference else interval(arms[arm][MEAN]["difference"])
            row += [f"{arms[arm][MEAN]['mean']:.3f}", difference]
        rows.append(row)
    return markdown_rows(header, rows, left=len(header))


def _languages_table(result: Mapping[str, Any]) -> str:
    family = FAMILIES[result["rule"]["arms"]]
    languages = list(result["heldout"])
    header = [f"arm minus {family.reference} [95%]", "model", *languages]
    rows = [
        [arm, model, *(interval(arms[arm][name]["difference"]) for name in languages)]
        for arm in [*family.arms][1:]
        for model, arms in result["models"].items()
    ]
    return markdown_rows(header, rows, left=len(header))


def _findings_table(result: Mapping[str, Any]) -> str:
    header = [
        "comparison",
        "model",
        "difference [95%]",
        "found with power 80%",
        "OpenCoder",
        "here",
    ]
    return markdown_rows(header, _findings_rows(result), left=len(header))


def _findings_rows(result: Mapping[str, Any]) -> Iterator[list[str]]:
    for each in result["findings"]:
        smallest = "" if each["smallest"] is None else f"from {each['smallest']:.3f}"
        yield [
            each["comparison"],
            each["model"],
            interval(each["difference"]),
            smallest,
            each["paper"] or "not reported",
            each["verdict"],
        ]


def interval(difference: Mapping[str, Any]) -> str:
    """A difference and its 95% interval, with signs."""
    low, high = difference["ci95"]
    return f"{difference['mean']:+.3f} [{low:+.3f}, {high:+.3f}]"
