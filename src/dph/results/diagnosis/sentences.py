"""Findings on a set, in sentences: each from a condition that held, with its numbers."""

from collections.abc import Iterator

from dph.results.diagnosis.changes import Change
from dph.results.diagnosis.complementarity import Complementarity
from dph.results.diagnosis.log_findings import Finding
from dph.results.diagnosis.set_diagnosis import PassAtKChange, SetDiagnosis
from dph.results.diagnosis.totals import Total

NAMED = 0.05
_LISTED = 3


def set_sentences(name: str, found: SetDiagnosis) -> list[Finding]:
    """The sentences of a set, in a fixed order."""
    return [
        *_problems(name, found),
        *_totals(name, found),
        *_styles(name, found),
        *_complementarity(name, found),
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
            if about == "solved_before_alone":
                shown += _named_alone(found)
            values = {
                "observed": one.observed,
                "expected": one.expected,
                "lo": one.lo,
                "hi": one.hi,
            }
            yield Finding(about=about, text=shown, values=values)


def _named_alone(found: SetDiagnosis) -> str:
    alone = found.solved_before_alone
    told = [f"{one.problem_id} ({one.baseline_correct}/{one.baseline_samples})" for one in alone]
    listed = ", ".join(told[:_LISTED])
    listed += f" and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    seldom = sum(one.change is not Change.LOST for one in alone)
    return f" They are {listed}; {seldom} were right too seldom to be lost each by itself."


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


def _complementarity(name: str, found: SetDiagnosis) -> Iterator[Finding]:
    if (one := found.complementarity) is not None:
        yield Finding(
            about="complementarity",
            text=f"On {name}, before training: {complementarity_text(one)}",
            values={"k": one.k, "value": one.value, "lo": one.lo, "hi": one.hi, "p": one.p_value},
        )


def complementarity_text(found: Complementarity) -> str:
    """Complementarity in one sentence."""
    best, k = found.styles[0], found.k
    interval = f"[{_points(found.lo)}, {_points(found.hi)}] points, p = {found.p_value:.2g}"
    if found.p_value <= NAMED and found.value > 0:
        return (
            f"{_points(found.value)} of the Pass@{k} of {_percent(best.of_all)} come from styles "
            f"that know different things ({interval}); its best style alone, {best.style}, has "
            f"{_percent(best.pass_at_k)}."
        )
    return (
        f"the styles do not add to each other beyond chance: the best one alone, {best.style}, has "
        f"a Pass@{k} of {_percent(best.pass_at_k)}, all together {_percent(best.of_all)} "
        f"({interval})."
    )


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
