"""Runs of one method at several strengths (the paper's ablation of eta, Table 8)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dph.errors import DataError
from dph.results.charts.labels import chosen_ks
from dph.results.figure.models import Model, Models


def strengths_on(models: Models, set_name: str) -> dict[str, dict[float, Mapping[str, Any]]]:
    """By method and rising strength, what models scored on a set; two strengths at least.

    Raises:
        DataError: two runs of a method have the same strength, and are no seeds of one run.
    """
    found: dict[str, dict[float, Model]] = {}
    for model in models.models:
        if model.method is None or model.strength is None or set_name not in model.sets:
            continue
        of_method = found.setdefault(model.method, {})
        if model.strength in of_method:
            raise DataError(
                f"{of_method[model.strength].name} and {model.name} are both {model.method} at "
                f"{model.strength:g} and differ in more than their seed; name one of them"
            )
        of_method[model.strength] = model
    return {
        method: {strength: points[strength].sets[set_name] for strength in sorted(points)}
        for method, points in found.items()
        if len(points) > 1
    }


def many_of(summaries: Mapping[str, Mapping[str, Any]], k: int | None) -> str:
    """The metric of many tries: Pass@k of ``k``, or of the largest usual one that all have.

    Raises:
        DataError: a model has no Pass@k of ``k``.
    """
    common = [k for k in _first(summaries) if all(k in s["pass_at_k"] for s in summaries.values())]
    if k is not None and str(k) not in common:
        raise DataError(f"there is no Pass@{k} of all runs, only of k = {', '.join(common)}")
    return f"pass_at_{k or chosen_ks(dict.fromkeys(common))[-1]}"


def _first(summaries: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    return list(next(iter(summaries.values()))["pass_at_k"])
