"""Output of ``dph diagnose`` for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dph.cli.display.output import table_of, table_text, wrapped
from dph.results.charts.text_table import one_line, percent, points
from dph.results.diagnosis.changes import Change, ProblemChange
from dph.results.diagnosis.run_diagnosis import Diagnosis
from dph.results.diagnosis.set_diagnosis import SetDiagnosis, set_sentences
from dph.results.diagnosis.styles import PARTS
from dph.results.vocabulary import set_label

if TYPE_CHECKING:
    from rich.table import Table

_PART_TITLES = {
    "total": "change",
    "styles_died": "styles that died",
    "certainty": "certainty in the others",
    "moved": "moved between them",
}
_FEATURES = 5
_SENTENCE = 400


def diagnosis_text(found: Diagnosis, *, most: int, width: int | None = None) -> str:
    """The page: each set in sentences and tables, then the log, then what could not be told.

    ``width`` is that of a terminal; without one sentences and rows are one line each.
    """
    blocks = [f"{found.run} against {found.baseline}"]
    for name, of_set in found.sets.items():
        blocks += _set_blocks(name, of_set, most, width)
    if found.log:
        lines = [wrapped(finding.text, width, indent="  ") for finding in found.log]
        blocks.append("\n".join(["Training log", *lines]))
    left_out = [
        f"{set_label(name)}: {len(ids)} problem(s) left out: not in both, or no gold to grade by"
        for name, ids in found.left_out.items()
    ]
    notes = [one_line(note, widest=_SENTENCE) for note in (*left_out, *found.notes)]
    closing = [wrapped(line, width) for line in (*notes, *_level_notes(found))]
    return "\n\n".join([*blocks, "\n".join(closing)])


def _set_blocks(name: str, found: SetDiagnosis, most: int, width: int | None) -> list[str]:
    said = [one_line(one.text, widest=_SENTENCE) for one in set_sentences(name, found)]
    lines = [wrapped(line, width, indent="  ") for line in said]
    tables = [_counts_table(found)]
    if found.styles:
        tables.append(_styles_table(found))
    if found.styles and found.pass_at_k:
        tables.append(_pass_at_k_table(found))
    tables += _problem_tables(found, most)
    if found.features:
        tables.append(_features_table(found))
    shown = [table_text(table, width=width) for table in tables]
    return ["\n".join([one_line(set_label(name)).upper(), *lines]), *shown]


def _counts_table(found: SetDiagnosis) -> "Table":
    cells = [
        str(len(found.problems)),
        *(str(len(found.of(change))) for change in Change),
        *(f"{one.observed} ({one.lo} to {one.hi})" for one in found.totals.values()),
    ]
    titles = ["problems", *(change.value for change in Change), "right answers"]
    return _table(
        "in brackets: 95% range of two draws of one model",
        [*titles, "solved by the base model alone", "by the run alone"],
        [cells],
    )


def _styles_table(found: SetDiagnosis) -> "Table":
    return _table(
        "in per cent; right: of the answers in that style",
        ["style", "baseline", "run", "right, baseline", "right, run", ""],
        (
            [
                "no style" if one.style is None else one.style,
                *map(percent, (one.baseline_share, one.share, one.baseline_correct, one.correct)),
                "died" if one.died else "",
            ]
            for one in found.styles
        ),
    )


def _pass_at_k_table(found: SetDiagnosis) -> "Table":
    rows = []
    for k, one in found.pass_at_k.items():
        cells = (points(d.mean, [d.lo, d.hi]) for d in (one.parts[part] for part in PARTS))
        rows.append([f"pass@{k}", percent(one.baseline), percent(one.run), *cells])
        if one.of_lost is not None:
            of_lost = (f"{100 * one.of_lost[part]:+.1f}" for part in PARTS)
            rows.append(["  the lost problems alone", "", "", *of_lost])
    return _table(
        "changes in points with 95% intervals; the parts add up to the change",
        ["", "baseline", "run", *(_PART_TITLES[part] for part in PARTS)],
        rows,
    )


def _problem_tables(found: SetDiagnosis, most: int) -> Iterator["Table"]:
    for change in (Change.LOST, Change.GAINED):
        named = sorted(found.of(change), key=lambda one: min(one.p_lost, one.p_gained))
        if named and most:
            yield _problems_table(change, named, most)
    if found.solved_before_alone and most:
        shown = found.solved_before_alone[:most]
        yield _table(
            f"solved by the base model alone: {len(shown)} of {len(found.solved_before_alone)}",
            ["problem", "baseline", "run", ""],
            ([*_counts(one), one.change.value] for one in shown),
        )


def _problems_table(change: Change, named: Sequence[ProblemChange], most: int) -> "Table":
    rows = []
    for one in named[:most]:
        lost = change is Change.LOST
        levels = (one.p_lost, one.q_lost) if lost else (one.p_gained, one.q_gained)
        apart = one.difference
        difference = points(apart.mean, [apart.lo, apart.hi])
        rows.append([*_counts(one), difference, *(f"{level:.1g}" for level in levels)])
    return _table(
        f"{change.value}: {len(rows)} of {len(named)}",
        ["problem", "baseline", "run", "difference", "p", "adjusted"],
        rows,
    )


def _counts(one: ProblemChange) -> tuple[str, str, str]:
    before = f"{one.baseline_correct}/{one.baseline_samples}"
    return one.problem_id, before, f"{one.correct}/{one.samples}"


def _features_table(found: SetDiagnosis) -> "Table":
    rows = [
        [
            row.feature.name,
            f"{row.lost_with}/{row.having}",
            f"{row.lost_without}/{row.lacking}",
            points(row.difference.mean, [row.difference.lo, row.difference.hi]),
            f"{row.p_value:.1g}",
            f"{row.adjusted:.1g}",
            "named" if row.named else "",
        ]
        for i, row in enumerate(found.features)
        if row.named or i < _FEATURES
    ]
    return _table(
        f"features of the lost, among the {found.candidates} problems that could be lost: "
        f"{len(rows)} of {len(found.features)}",
        ["feature", "lost with", "lost without", "difference", "p", "adjusted", ""],
        rows,
    )


def _table(caption: str, titles: Sequence[str], rows: Iterable[Iterable[str]]) -> "Table":
    """A table; names of problems, styles and features are others' text: no commands."""
    return table_of(caption, titles, (map(one_line, row) for row in rows))


def _level_notes(found: Diagnosis) -> tuple[str, str]:
    levels = found.levels
    return (
        "Two draws of one model differ in any of these lists with a chance of at most "
        f"{found.fdr:g}.",
        f"Levels of the lists: {levels.lost:.2g} (lost), {levels.gained:.2g} (gained), "
        f"{levels.styles:.2g} (styles), {levels.totals:.2g} (totals) and {levels.features:.2g} "
        "(features).",
    )
