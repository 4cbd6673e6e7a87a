"""The diagnosis of a run: its losses, the causes of a change of Pass@k, and its log."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.results.diagnosis.changes import FDR, QUESTIONS, Change, Levels, list_level
from dph.results.diagnosis.log_findings import Finding, log_findings
from dph.results.diagnosis.set_diagnosis import (
    PairedSet,
    SetDiagnosis,
    SetQuestions,
    diagnose_set,
    name_features,
    set_sentences,
)
from dph.results.diagnosis.styles import DIED
from dph.results.read.run_results import RunResults
from dph.results.vocabulary import set_title
from dph.runs.evaluate.evaluated_runs import default_ks
from dph.runs.evaluate.intervals import RESAMPLES, Difference
from dph.runs.evaluate.samples_file import comparable_scores
from dph.runs.evaluate.scores import SetScores
from dph.tasks.styles import make_style

Scores = Mapping[str, SetScores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All that a diagnosis found.

    ``fdr`` bounds it as a whole: of two draws of one model it names anything at all with a chance
    of at most ``fdr``. ``levels`` is what each question's lists got of it
    (``dph.results.diagnosis.changes``).

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


def _items(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def diagnose(
    run: str | Path,
    against: str | Path | None = None,
    *,
    sets: Collection[str] = (),
    ks: Sequence[int] | None = None,
    fdr: float = FDR,
    died: float = DIED,
    styles: str | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Diagnosis:
    """Losses of an evaluated run against its initial policy, or against any other evaluation.

    Args:
        run: a run directory, or one with an evaluation.
        against: another, or a samples file; default: the evaluation of the initial policy.
        sets: say what was found on these alone; default: on all that both were evaluated on.
            Every set is asked all the same, so that no verdict depends on what is shown.
        ks: the k of Pass@k; default: those of 8, 16, 32 that there are samples for.
        fdr: the chance that two draws of one model are told apart in anything.
        died: a style has died when its share is at most this part of what it was.
        styles: classify the answers by this (``data.styles``); default: the styles they have.
        seed: of the bootstrap and of the random choices that features are compared with.
        resamples: of the bootstrap.

    Raises:
        DataError: something was not evaluated, or not on the same problems.
        SettingsError: ``fdr``, ``died`` or a k is out of range.
    """
    if not 0 < fdr < 1:
        raise SettingsError(f"a false discovery rate lies between 0 and 1, got {fdr}")
    results = RunResults(Path(run))
    baseline = results.baseline(None if against is None else Path(against))
    tables = {"run": _answers(results, styles), "baseline": _answers(baseline, styles)}
    scores = comparable_scores(tables)
    names, notes = _common_sets({"run": results, "baseline": baseline}, scores, sets)
    chosen = {label: {name: of[name] for name in names} for label, of in scores.items()}
    pairs = [
        PairedSet(name, *((tables[side], scores[side][name]) for side in ("run", "baseline")))
        for name in names
    ]
    level, wanted = fdr / QUESTIONS, ks or default_ks(chosen)
    levels = _levels(pairs, level)
    asked = SetQuestions(ks=wanted, levels=levels, died=died, seed=seed, resamples=resamples)
    found = {of.name: diagnose_set(of, _problems(results, of, notes), asked) for of in pairs}
    smallest = [one.features[0].adjusted if one.features else 1.0 for one in found.values()]
    levels = replace(levels, features=list_level(smallest, level))
    shown = list(dict.fromkeys(sets or names))
    return Diagnosis(
        run=str(results.path),
        baseline=str(baseline.path),
        fdr=fdr,
        levels=levels,
        died=died,
        sets={name: name_features(found[name], levels.features) for name in shown},
        log=tuple(_log(results, notes)),
        left_out=_left_out(tables, {name: chosen["run"][name] for name in shown}),
        notes=tuple(notes),
    )


def _levels(pairs: Sequence[PairedSet], level: float) -> Levels:
    """The level of each question's lists; that of features is known when all are looked at."""
    rates = [pair.smallest_rates() for pair in pairs]
    by_question = {name: list_level([of[name] for of in rates], level) for name in rates[0]}
    return Levels(**by_question, features=level)


def _log(results: RunResults, notes: list[str]) -> list[Finding]:
    """Findings in the run's log; notes of what it does not cover."""
    rows = results.log()
    if not rows and not results.is_foreign:
        notes.append(
            f"{results.path} has no metrics.jsonl, so the diagnosis has no findings about training"
        )
    return log_findings(rows)


def _answers(results: RunResults, styles: str | None) -> pa.Table:
    style = make_style(styles, [Path.cwd()])
    if style is None:
        return results.answers(texts=False)
    table = results.answers()
    column = pa.array([style(text) for text in table["text"].to_pylist()], pa.string())
    return table.set_column(table.schema.get_field_index("style"), "style", column)


def _common_sets(
    sides: Mapping[str, RunResults], scores: Mapping[str, Scores], wanted: Collection[str]
) -> tuple[list[str], list[str]]:
    """The sets of both, those ``wanted`` among them, and a note of those of only one of the two."""
    for label, of in scores.items():
        for name in wanted:
            if name not in of:
                place = f"the {label} {sides[label].path}"
                raise DataError(f"{place} was evaluated on {', '.join(of)}, not on {name!r}")
    run, baseline = scores["run"], scores["baseline"]
    both = [name for name in run if name in baseline]
    if not both:
        raise DataError(
            f"{sides['run'].path} was evaluated on {', '.join(run)} and "
            f"{sides['baseline'].path} on {', '.join(baseline)}: there is no set to compare them on"
        )
    one = [] if wanted else [name for name in (*run, *baseline) if name not in both]
    return both, [f"the set {name!r} was evaluated for one of the two only" for name in one]


def _problems(results: RunResults, pair: PairedSet, notes: list[str]) -> list[Problem] | None:
    """The problems of a set in its order; None with a note where they are unavailable."""
    set_name, problem_ids = pair.name, pair.run[1].problem_ids
    try:
        found = results.problems(set_name)
    except (DataError, SettingsError) as error:  # a recipe that is not valid names no problems
        notes.append(f"features of {set_name!r}: only the base model's accuracy, because {error}")
        return None
    if missing := [one for one in problem_ids if one not in found]:
        notes.append(
            f"features of {set_name!r}: only the base model's accuracy, because {len(missing)} of "
            f"its prompts are in no file of the recipe or the answers, such as {missing[0]!r}"
        )
        return None
    return [found[one] for one in problem_ids]


def _left_out(
    tables: Mapping[str, pa.Table], scores: Mapping[str, SetScores]
) -> dict[str, Sequence[str]]:
    """Problems that a set of either has and the scores have not."""
    left: dict[str, Sequence[str]] = {}
    both = [(one["set"].to_numpy(), one["problem_id"].to_numpy()) for one in tables.values()]
    for name, of_set in scores.items():
        there = dict.fromkeys(one for names, ids in both for one in ids[names == name].tolist())
        known = set(of_set.problem_ids)
        if gone := [one for one in there if one not in known]:
            left[name] = tuple(gone)
    return left


# A diagnosis as one JSON document (docs/files.md).

SCHEMA = 1


def diagnosis_document(found: Diagnosis) -> dict[str, Any]:
    """Everything that was found; fractions in [0, 1], null where something is not known."""
    plain = {one.name: getattr(found, one.name) for one in fields(found)}
    sets = {name: _set_document(name, one) for name, one in found.sets.items()}
    return {"schema": SCHEMA, **_plain({**plain, "sets": sets})}


def _set_document(name: str, found: SetDiagnosis) -> dict[str, Any]:
    plain = {one.name: getattr(found, one.name) for one in fields(found)}
    del plain["unnamed_fall"]
    pass_at_k = {
        k: {part: getattr(one, part) for part in ("baseline", "run", "parts", "of_lost")}
        for k, one in found.pass_at_k.items()
    }
    rows = [_plain(row) for row in found.features]
    features = [{**row.pop("feature"), **row} for row in rows]
    problems = [
        {
            **_plain(one),
            "pass_at_k": {
                k: {part: float(values[at]) for part, values in of_k.by_problem.items()}
                for k, of_k in found.pass_at_k.items()
            },
        }
        for at, one in enumerate(found.problems)
    ]
    return {
        "sentences": set_sentences(name, found),
        "counts": {change.value: len(found.of(change)) for change in Change},
        **plain,
        "pass_at_k": pass_at_k,
        "features": features,
        "problems": problems,
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it; of a difference its mean and its interval."""
    if isinstance(value, Difference):
        return {"mean": value.mean, "ci95": [value.lo, value.hi]}
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, Change) else value
