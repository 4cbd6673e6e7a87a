"""Files of a study next to its rows: study.parquet, costs.jsonl, report.json and tables."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_file, make_directory, write_json, write_text
from dph.results.charts.text_table import FORMATS
from lab.study.costs import write_costs
from lab.study.plan import Plan
from lab.study.report import Report
from lab.study.results import Results, compared, planned_rows
from lab.study.rows import COLUMNS, OF_RUN, OF_SCORE, SCHEMA, Places, RunRow, row_path
from lab.study.rule_lock import RuleLock, choices_document, write_lock
from lab.study.settings import Study
from lab.study.tables import all_tables

# ``study.parquet``: every score of every finished run. The rows of a study: it goes on from them.
#
# The same rows give the same bytes, however often the study was killed.


def write_study(places: Places, plan: Plan, rows: Mapping[str, RunRow], lock: RuleLock) -> None:
    """Write the scores of all finished runs, sorted, with the rule's hash as metadata.

    A run has a row for each label that asks for it; one that the plan does not ask for (any more)
    stays, without a label. No time, no duration and no path is in it. Files of runs that the table
    now holds are removed.
    """
    metadata = {
        "dph.schema": str(SCHEMA),
        "dph.rule_sha256": lock.sha256,
        "dph.rule_replaces": ",".join(lock.replaces),
    }
    table = pa.Table.from_pylist(
        list(study_rows(plan, rows)), schema=COLUMNS.with_metadata(metadata)
    )
    with atomic_file(places.parquet) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    for run in rows:
        row_path(places.rows, run).unlink(missing_ok=True)
    for share in places.shares:
        share.unlink()


def study_rows(plan: Plan, rows: Mapping[str, RunRow]) -> Iterator[dict[str, Any]]:
    """A row for each score of each run and label, sorted by world, split, seed, label and run."""
    asked = {(run.id, run.label): run.split for run in plan.runs if run.id in rows}
    there = {run for run, _ in asked}
    named = [(rows[run], split, label) for (run, label), split in asked.items()]
    named += [(row, "", "") for run, row in rows.items() if run not in there]
    named.sort(key=lambda found: (found[0].world, found[1], found[0].seed, found[2], found[0].run))
    for row, split, label in named:
        of_run = {name: getattr(row, name) for name in OF_RUN}
        for score in row.scores:
            of_score = {name: getattr(score, name) for name in OF_SCORE}
            yield {**of_run, **of_score, "split": split or None, "label": label or None}


REPORT_SCHEMA = 1


def make_report(study: Study, plan: Plan, rows: Mapping[str, RunRow], lock: RuleLock) -> Report:
    """Data of tables and of the document."""
    results = Results(planned_rows(plan, rows), study.rule.fronts)
    return Report(study=study, plan=plan, results=results, lock=lock)


def write_outputs(report: Report, places: Places, rows: Mapping[str, RunRow]) -> None:
    """Write everything anew from the rows; all but the costs is the same in every clone."""
    # The choices that runs on report seeds rest on.
    chosen = {k: c for k, c in report.plan.choices.items() if report.results.rows(*k)}
    write_lock(report.study, places, report.lock, chosen)
    write_study(places, report.plan, rows, report.lock)
    write_costs(places, rows)
    write_json(places.report, report_document(report, rows))
    make_directory(places.tables)
    for table in all_tables(report):
        for suffix, write in FORMATS.values():
            write_text(places.tables / f"{table.name}.{suffix}", write(table))


def report_document(report: Report, rows: Mapping[str, RunRow]) -> dict[str, Any]:
    """Choices, means and tests as one JSON document: fractions, not per cent."""
    ids = {run.id for run in report.plan.runs}
    return {
        "schema": REPORT_SCHEMA,
        "name": report.study.file.study.name,
        "rule_sha256": report.lock.sha256,
        "rule_replaces": list(report.lock.replaces),
        "runs": {"finished": len(ids & set(rows)), "total": report.plan.total},
        "choices": choices_document(report.plan.choices, report.study),
        "scores": list(_scores(report)),
        "comparisons": [
            {
                "world": found.world,
                **found.comparison.model_dump(mode="json"),
                "difference": found.difference.mean,
                "ci95": [found.difference.lo, found.difference.hi],
                "p": found.difference.p_value,
                "p_adjusted": found.adjusted,
                "seeds": found.difference.seeds,
            }
            for found in compared(report.results, report.study.rule)
        ],
    }


def _scores(report: Report) -> Any:
    results = report.results
    for world in results.worlds:
        for label in results.labels(world):
            for of in results.sets(world):
                for metric in report.metrics(world):
                    found = results.estimate(world, label, metric, [of])
                    if found is not None:
                        yield {
                            "world": world,
                            "label": label,
                            "set": of,
                            "metric": metric,
                            "mean": found.mean,
                            "half_ci95": found.half,
                            "seeds": found.seeds,
                        }
