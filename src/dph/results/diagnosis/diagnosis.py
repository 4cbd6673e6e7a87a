"""All that a diagnosis found: as a record, as JSON, and in a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from dph.results.diagnosis.changes import Change, ProblemChange
from dph.results.diagnosis.levels import Levels
from dph.results.diagnosis.log_findings import Finding
from dph.results.diagnosis.problem_features import LostFeature
from dph.results.diagnosis.sentences import set_sentences
from dph.results.diagnosis.set_diagnosis import PARTS, PassAtKChange, SetDiagnosis
from dph.results.vocabulary import set_title
from dph.runs.evaluate.intervals import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All that a diagnosis found.

    ``fdr`` bounds it as a whole: of two draws of one model it names anything at all with a chance
    of at most ``fdr``. ``levels`` is what each question's lists got of it
    (``dph.results.diagnosis.levels``).

    ``left_out`` are problems whose gold answer could not be graded, by set. ``notes`` say what
    could not be told, and why.
    """

    run: str
    baseline: str
    fdr: float
    levels: Levels
    died: float
    sets: Mapping[str, SetDiagnosis]
    log: Sequence[Finding]
    left_out: Mapping[str, Sequence[str]]
    notes: Sequence[str]

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{escape(self.run)} against {escape(self.baseline)}</strong></p>"]
        for name, found in self.sets.items():
            sentences = _items([one.text for one in set_sentences(name, found)])
            parts.append(f"<p>{escape(set_title(name))}</p>{sentences}")
        if self.notes:
            parts.append(f"<p>Notes</p>{_items(self.notes)}")
        return "".join(parts)


# A diagnosis as one JSON document (docs/artefacts.md).

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
        "pass_at_k": {str(k): _document_pass_at_k(one) for k, one in found.pass_at_k.items()},
        "features": [_feature(one) for one in found.features],
        "candidates": found.candidates,
        "unused_columns": dict(found.unused_columns),
        "outcomes": {name: dict(shares) for name, shares in found.outcomes.items()},
        "problems": [
            _problem(one, place, found.pass_at_k) for place, one in enumerate(found.problems)
        ],
    }


def _document_pass_at_k(found: PassAtKChange) -> dict[str, Any]:
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


def _items(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"
