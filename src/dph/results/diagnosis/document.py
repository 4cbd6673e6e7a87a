"""A diagnosis as one JSON document (docs/artefacts.md)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dph.results.diagnosis.changes import Change, ProblemChange
from dph.results.diagnosis.over_represented import LostFeature
from dph.results.diagnosis.run_diagnosis import Diagnosis
from dph.results.diagnosis.sentences import set_sentences
from dph.results.diagnosis.set_diagnosis import PARTS, PassAtKChange, SetDiagnosis
from dph.runs.evaluate.intervals import Difference

SCHEMA = 1


def diagnosis_document(found: Diagnosis) -> dict[str, Any]:
    """Everything that was found; fractions in [0, 1], null where something is not known."""
    return {
        "schema": SCHEMA,
        "run": found.run,
        "baseline": found.baseline,
        "fdr": found.fdr,
        "levels": asdict(found.levels),
        "died": found.died,
        "sets": {name: _set(name, one) for name, one in found.sets.items()},
        "log": [asdict(finding) for finding in found.log],
        "left_out": {name: list(ids) for name, ids in found.left_out.items()},
        "notes": list(found.notes),
    }


def _set(name: str, found: SetDiagnosis) -> dict[str, Any]:
    return {
        "sentences": [asdict(one) for one in set_sentences(name, found)],
        "samples": found.samples,
        "baseline_samples": found.baseline_samples,
        "split_samples": found.split_samples,
        "counts": {change.value: len(found.of(change)) for change in Change},
        "totals": asdict(found.totals),
        "styles": [asdict(one) for one in found.styles],
        "pass_at_k": {str(k): _pass_at_k(one) for k, one in found.pass_at_k.items()},
        "features": [_feature(one) for one in found.features],
        "candidates": found.candidates,
        "unused_columns": dict(found.unused_columns),
        "outcomes": {name: dict(shares) for name, shares in found.outcomes.items()},
        "problems": [
            _problem(one, place, found.pass_at_k) for place, one in enumerate(found.problems)
        ],
    }


def _pass_at_k(found: PassAtKChange) -> dict[str, Any]:
    return {
        "baseline": found.baseline,
        "run": found.run,
        "parts": {part: _difference(one) for part, one in found.parts.items()},
        "of_lost": None if found.of_lost is None else dict(found.of_lost),
    }


def _problem(
    one: ProblemChange, place: int, pass_at_k: Mapping[int, PassAtKChange]
) -> dict[str, Any]:
    plain = {**asdict(one), "change": one.change.value, "difference": _difference(one.difference)}
    parts = {
        str(k): {part: float(getattr(of_k.by_problem, part)[place]) for part in PARTS}
        for k, of_k in pass_at_k.items()
    }
    return {**plain, "pass_at_k": parts}


def _feature(found: LostFeature) -> dict[str, Any]:
    plain = asdict(found)
    feature = plain.pop("feature")
    feature["same_as"] = list(feature["same_as"])
    return {**feature, **plain, "difference": _difference(found.difference)}


def _difference(found: Difference) -> dict[str, Any]:
    return {"mean": found.mean, "ci95": [found.lo, found.hi]}
