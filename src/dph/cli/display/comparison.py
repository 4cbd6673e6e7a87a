"""Output of ``dph passk``, ``compare`` and ``diagnose``: tables for people, documents for machines.

The document of a diagnosis is made by ``dph.results.diagnosis.run_diagnosis``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dph.cli.display.output import table_of, table_text, wrapped
from dph.results.charts.tables import differences_table
from dph.results.charts.text_table import count, one_line, percent, points
from dph.results.diagnosis.changes import Change, ProblemChange
from dph.results.diagnosis.run_diagnosis import Diagnosis
from dph.results.diagnosis.set_diagnosis import SetDiagnosis, set_sentences
from dph.results.vocabulary import set_label
from dph.runs.evaluate.comparison import BASE, MODEL, ComparisonRow, RewardsSummary
from dph.runs.evaluate.evaluated_runs import RunOnSet
from dph.runs.evaluate.intervals import PEER
from dph.runs.evaluate.metrics import Retention

if TYPE_CHECKING:
    from rich.table import Table

_BANDS = f"all k together: the difference's bounds at all k at once; {PEER}: those of that paper"


def passk_json(summary: RewardsSummary, source: Path, against: Path | None) -> dict[str, Any]:
    """For machines: fractions in [0, 1]; keep and explore are null where nothing can be said."""
    return {
        "schema": 1,
        "input": str(source),
        "against": None if against is None else str(against),
        "problems": summary.problems,
        "samples": {"fewest": summary.fewest_samples, "most": summary.most_samples},
        "left_out": list(summary.left_out),
        "metrics": {mine.metric: _metric(mine, other) for mine, other in _pairs(summary)},
        **_first_loss_json(summary),
        **asdict(summary.retention or Retention()),
    }


def passk_table(
    summary: RewardsSummary, source: Path, against: Path | None, retention_k: int
) -> "Table":
    others = () if against is None else (against.name, "difference", "all k together", PEER)
    rows = []
    for mine, other in _pairs(summary):
        both = [row for row in (mine, other) if row is not None]
        cells = [percent(row.value, [row.lo, row.hi]) for row in both]
        if (apart := mine.difference) is not None:
            cells.append(points(apart.mean, [apart.lo, apart.hi]))
        for band in (summary.band, summary.peer):
            if band is not None and mine.k is not None:
                cells.append(points(0.0, band.bounds[mine.k]).partition(" ")[2])
        rows.append([mine.metric.replace("pass_at_", "pass@"), *cells])
    if (kept := summary.retention) is not None:
        rows.append(["keep", percent(kept.keep), percent(kept.keep_null)])
        rows.append(["explore", percent(kept.explore), percent(kept.explore_null)])
    table = table_of(_caption(summary, retention_k), ["", source.name, *others], rows)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _caption(summary: RewardsSummary, retention_k: int) -> str:
    fewest, most = summary.fewest_samples, summary.most_samples
    lines = [] if summary.band is None else [summary.band.sentence(), _BANDS]
    lines += [
        f"{summary.problems} problems, {fewest if fewest == most else f'{fewest} to {most}'} "
        "samples each; in per cent, with 95% intervals over problems"
    ]
    if any(row.exact for row in summary.rows):
        lines += ["an interval is exact where all problems have one value, else by the bootstrap"]
    if summary.left_out:
        lines.append(f"{len(summary.left_out)} problem(s) left out: their gold cannot be graded")
    if (kept := summary.retention) and kept.keep_null is None and kept.explore_null is None:
        lines.append(
            f"keep and explore need {2 * retention_k} samples of every problem "
            "(fewer: --retention-k)"
            if fewest < 2 * retention_k
            else "keep and explore need as many samples of each problem as of every other, in both "
            "files; CRASHED samples do not count"
        )
    return "\n".join(lines)


def _pairs(summary: RewardsSummary) -> list[tuple[ComparisonRow, ComparisonRow | None]]:
    others = {row.metric: row for row in summary.rows if row.run == BASE}
    return [(row, others.get(row.metric)) for row in summary.rows if row.run == MODEL]


def _metric(mine: ComparisonRow, other: ComparisonRow | None) -> dict[str, Any]:
    interval = "exact" if mine.exact else "bootstrap"
    found = {"value": mine.value, "ci95": [mine.lo, mine.hi], "interval": interval}
    if other is not None and (apart := mine.difference) is not None:
        difference = {"mean": apart.mean, "ci95": [apart.lo, apart.hi]}
        found |= {"against": _metric(other, None), "difference": difference}
    return found


def _first_loss_json(summary: RewardsSummary) -> dict[str, Any]:
    """The band, and where it says that the model loses; null without another file."""
    band, peer = summary.band, summary.peer
    if band is None or peer is None:
        return {"band": None, "first_loss": None}
    alone = {row.k: row.difference for row in summary.rows if row.k and row.difference}
    names = ("k", "difference", "low", "high", "pointwise_low", "pointwise_high")
    rows = [(k, d.mean, *band.bounds[k], d.lo, d.hi, *peer.bounds[k]) for k, d in alone.items()]
    return {
        "band": [dict(zip((*names, "peer_low", "peer_high"), row, strict=True)) for row in rows],
        "first_loss": band.document() | {"peer": {"source": PEER} | peer.document()},
    }


def comparison_json(
    labels: Mapping[str, str], rows: Sequence[ComparisonRow], on_sets: Sequence[RunOnSet]
) -> dict[str, Any]:
    """For machines: one object a row; fractions in [0, 1]. Runs are named by their paths."""
    metrics = [
        {
            "set": row.set_name,
            "metric": row.metric,
            "run": row.run,
            "value": row.value,
            "ci95": [row.lo, row.hi],
            "difference": (d := row.difference) and {"mean": d.mean, "ci95": [d.lo, d.hi]},
        }
        for row in rows
    ]
    sets, problems = [], []
    for on_set in on_sets:
        place = {"set": on_set.set_name, "run": on_set.run}
        kept, band = on_set.retention, on_set.band
        styles = {"styles": dict(on_set.shares), "effective_styles": on_set.effective_styles}
        sets.append({**place, **styles, **asdict(kept), "first_loss": band and band.document()})
        problems += [{**place, **asdict(one), "change": one.change} for one in on_set.changed]
    return {
        "schema": 1,
        "baseline": next(iter(labels)),
        "labels": dict(labels),
        "rows": metrics,
        "sets": sets,
        "problems": problems,
    }


def comparison_text(
    labels: Mapping[str, str], rows: Sequence[ComparisonRow], on_sets: Sequence[RunOnSet]
) -> str:
    """For people: metrics with differences, then styles, keep and explore, then problems."""
    named = [replace(row, run=labels[row.run]) for row in rows]
    tables = [differences_table(named), _sets_table(labels, on_sets)]
    changed = []
    for on_set in on_sets:
        where = [set_label(on_set.set_name), labels[on_set.run]]
        for one in on_set.changed:
            before = f"{one.baseline_correct}/{one.baseline_samples}"
            changed.append([*where, one.problem_id, f"{one.correct}/{one.samples}", before])
    if changed:
        titles = ["set", "run", "problem", "correct", "before"]
        tables.append(table_of("the problems that changed most", titles, changed))
    return "\n\n".join(map(table_text, tables))


def _sets_table(labels: Mapping[str, str], on_sets: Sequence[RunOnSet]) -> "Table":
    rows, last = [], ""
    for on_set in on_sets:
        kept, band = on_set.retention, on_set.band
        shares = ((kept.keep, kept.keep_null), (kept.explore, kept.explore_null))
        ks = () if band is None else (band.above, band.below)
        rows.append(
            [
                set_label(on_set.set_name) if on_set.set_name != last else "",
                labels[on_set.run],
                count(on_set.effective_styles),
                *(percent(x) if n is None else f"{percent(x)} ({percent(n)})" for x, n in shares),
                *(", ".join(map(str, found)) or "none" for found in ks),
            ]
        )
        last = on_set.set_name
    return table_of(
        "keep, explore: of the baseline's problems; in brackets, its score against itself\n"
        "above, below: those of k = 1, 2, 4 ... at which Pass@k is above or below the baseline's "
        "(95%, all k together)",
        ["set", "run", "effective styles", "keep", "explore", "above", "below"],
        rows,
    )


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
    levels = found.levels
    closing = [
        *(one_line(note, widest=_SENTENCE) for note in (*left_out, *found.notes)),
        "Two draws of one model differ in any of these lists with a chance of at most "
        f"{found.fdr:g}.",
        f"Levels of the lists: {levels.lost:.2g} (lost), {levels.gained:.2g} (gained), "
        f"{levels.styles:.2g} (styles), {levels.totals:.2g} (totals) and {levels.features:.2g} "
        "(features).",
    ]
    return "\n\n".join([*blocks, "\n".join(wrapped(line, width) for line in closing)])


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
    titles += ["solved only by the base model", "only by the run"]
    return _table("in brackets: 95% range of two draws of one model", titles, [cells])


def _styles_table(found: SetDiagnosis) -> "Table":
    rows = []
    for one in found.styles:
        shares = (one.baseline_share, one.share, one.baseline_correct, one.correct)
        style, died = "no style" if one.style is None else one.style, "died" if one.died else ""
        rows.append([style, *map(percent, shares), died])
    titles = ["style", "baseline", "run", "right, baseline", "right, run", ""]
    return _table("in per cent; right: of the answers in that style", titles, rows)


def _pass_at_k_table(found: SetDiagnosis) -> "Table":
    parts = {"total": "change", "styles_died": "styles that died"}
    parts |= {"certainty": "certainty in the others", "moved": "moved between them"}
    rows = []
    for k, one in found.pass_at_k.items():
        cells = (points(d.mean, [d.lo, d.hi]) for d in map(one.parts.__getitem__, parts))
        rows.append([f"pass@{k}", percent(one.baseline), percent(one.run), *cells])
        if one.of_lost is not None:
            of_lost = (f"{100 * one.of_lost[part]:+.1f}" for part in parts)
            rows.append(["  the lost problems alone", "", "", *of_lost])
    caption = "changes in points with 95% intervals; the parts add up to the change"
    return _table(caption, ["", "baseline", "run", *parts.values()], rows)


def _problem_tables(found: SetDiagnosis, most: int) -> Iterator["Table"]:
    for change in (Change.LOST, Change.GAINED):
        named = sorted(found.of(change), key=lambda one: min(one.p_lost, one.p_gained))
        rows = []
        for one in named[:most]:
            lost, apart = change is Change.LOST, one.difference
            levels = (one.p_lost, one.q_lost) if lost else (one.p_gained, one.q_gained)
            difference = points(apart.mean, [apart.lo, apart.hi])
            rows.append([*_counts(one), difference, *(f"{level:.1g}" for level in levels)])
        if rows:
            caption = f"{change.value}: {len(rows)} of {len(named)}"
            titles = ["problem", "baseline", "run", "difference", "p", "adjusted"]
            yield _table(caption, titles, rows)
    if found.solved_before_alone and most:
        shown = found.solved_before_alone[:most]
        yield _table(
            f"solved only by the base model: {len(shown)} of {len(found.solved_before_alone)}",
            ["problem", "baseline", "run", ""],
            ([*_counts(one), one.change.value] for one in shown),
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
        if row.named or i < 5
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
