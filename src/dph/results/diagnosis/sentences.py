"""Findings on a set, in sentences: each from a condition that held, with its numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from dph.results.diagnosis.changes import Change, ProblemChange
from dph.results.diagnosis.log_findings import Finding
from dph.results.diagnosis.problem_features import LostFeature
from dph.results.diagnosis.run_diagnosis import Diagnosis
from dph.results.diagnosis.set_diagnosis import PARTS, PassAtKChange, SetDiagnosis
from dph.results.diagnosis.totals import Total
from dph.runs.evaluate.intervals import Difference

_LISTED = 3


def set_sentences(name: str, found: SetDiagnosis) -> list[Finding]:
    """The sentences of a set, in a fixed order."""
    return [
        *_problems(name, found),
        *_totals(name, found),
        *_styles(name, found),
        *_pass_at_k(name, found),
        *_features(name, found),
    ]


def _problems(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    counts = {change.value: len(found.of(change)) for change in Change}
    if counts["lost"] or counts["gained"]:
        text = (
            f"Of {len(found.problems)} problems of {name}, {counts['lost']} lost and "
            f"{counts['gained']} gained right answers, each more than two draws of one model would "
            "show."
        )
    else:
        text = (
            f"Of {len(found.problems)} problems of {name} none was lost or gained beyond what two "
            "draws of one model would show."
        )
    yield Finding(about="problems", text=text, values={"problems": len(found.problems), **counts})


def _totals(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    texts = {
        "correct_answers": "{observed} of the run's answers on {name} were right; two draws of one "
        "model with as many right answers between them leave it {range}.",
        "solved_before_alone": "{observed} problems of {name} were solved by the baseline and by "
        "no answer of the run; two draws of one model leave {range} such problems.",
        "solved_after_alone": "{observed} problems of {name} were solved by the run and by no "
        "answer of the baseline; two draws of one model leave {range} such problems.",
    }
    for about, text in texts.items():
        one: Total = getattr(found.totals, about)
        if one.named:
            shown = text.format(observed=one.observed, name=name, range=f"{one.lo} to {one.hi}")
            values = {
                "observed": one.observed,
                "expected": one.expected,
                "lo": one.lo,
                "hi": one.hi,
            }
            yield Finding(about=about, text=shown, values=values)


def _styles(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    dead = [one for one in found.styles if one.died]
    if not dead:
        return
    listed = ", ".join(
        f"{one.style} ({_percent(one.baseline_share)} to {_percent(one.share)})" for one in dead
    )
    yield Finding(
        about="styles_died",
        text=f"On {name} {len(dead)} of {_alive(found)} styles died: {listed}.",
        values={f"{one.style}": one.share for one in dead},
    )


def _alive(found: SetDiagnosis) -> int:
    return sum(one.baseline_share > 0 and one.style is not None for one in found.styles)


def _pass_at_k(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    if not found.pass_at_k or not found.styles:
        return
    k, one = next(iter(found.pass_at_k.items()))
    total = one.parts["total"]
    text = (
        f"Pass@{k} on {name} was {_percent(one.baseline)} and is {_percent(one.run)}, a "
        f"difference of {_points(total.mean)} [{_points(total.lo)}, {_points(total.hi)}] points: "
        f"{_parts(one)}."
    )
    values = {part: of_part.mean for part, of_part in one.parts.items()}
    yield Finding(about="pass_at_k", text=text, values={"k": k, **values})


def _parts(one: PassAtKChange) -> str:
    names = {
        "styles_died": "styles that died",
        "certainty": "certainty inside the styles that remain",
        "moved": "mass moved between those",
    }
    return ", ".join(f"{_points(one.parts[p].mean)} points {text}" for p, text in names.items())


def _features(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    for one in [row for row in found.features if row.named][:_LISTED]:
        text = (
            f"Of the problems of {name} with {one.feature.name}, {one.lost_with} of {one.having} "
            f"that could be lost were lost, of the others {one.lost_without} of {one.lacking}."
        )
        yield Finding(
            about="feature",
            text=text,
            values={
                "lost_with": one.lost_with,
                "having": one.having,
                "lost_without": one.lost_without,
                "lacking": one.lacking,
            },
        )


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


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
