"""A diagnosis as the template shows it, out of the document of ``dph diagnose``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dph.results.report.report_data import ReportData

MOST_PROBLEMS = 10
MOST_FEATURES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SetView:
    """What was found on one set. ``lost`` and ``gained`` are the clearest first; ``of`` all."""

    name: str
    found: Mapping[str, Any]
    lost: Sequence[Mapping[str, Any]]
    gained: Sequence[Mapping[str, Any]]
    features: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisView:
    """The diagnosis of one run."""

    key: str
    label: str
    baseline: str
    document: Mapping[str, Any]
    sets: Sequence[SetView]


def diagnosis_views(data: ReportData) -> list[DiagnosisView]:
    """The diagnoses of a report, in the order of its runs."""
    labels = {run.key: run.label for run in data.runs}
    return [
        DiagnosisView(
            key=run.key,
            label=run.label,
            baseline=labels.get(run.baseline or "", document["baseline"]),
            document=document,
            sets=[_set_view(name, found) for name, found in document["sets"].items()],
        )
        for run in data.runs
        if (document := data.diagnoses.get(run.key)) is not None
    ]


def _set_view(name: str, found: Mapping[str, Any]) -> SetView:
    features = [one for i, one in enumerate(found["features"]) if one["named"] or i < MOST_FEATURES]
    return SetView(
        name=name,
        found=found,
        lost=_clearest(found["problems"], "lost"),
        gained=_clearest(found["problems"], "gained"),
        features=features,
    )


def _clearest(problems: Sequence[Mapping[str, Any]], change: str) -> list[Mapping[str, Any]]:
    named = [one for one in problems if one["change"] == change]
    return sorted(named, key=lambda one: float(one[f"p_{change}"]))[:MOST_PROBLEMS]
