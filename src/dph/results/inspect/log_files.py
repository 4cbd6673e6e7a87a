"""Logs of Inspect in a directory: one for the samples of each set, one for its greedy answers.

A log is a ZIP file with a JSON document a sample, so ``inspect view`` reads what it shows and no
more, and a log of a million answers never is in memory.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dph._base.files import atomic_path, make_directory, read_json
from dph.errors import DataError
from dph.recipe import Recipe, load_recipe
from dph.records import Problem
from dph.results.inspect.documents import (
    VERSION,
    LogHead,
    is_scored,
    log_header,
    log_plan,
    log_sample,
    log_spec,
    sample_summary,
)
from dph.results.report.report_data import read_set_problems
from dph.runs.evaluate.evaluated_runs import require_evaluated
from dph.runs.evaluate.samples_file import GREEDY_INDEX, read_samples, samples_digest
from dph.runs.layout import EVALUATION, RECIPE, SAMPLES

_ROWS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectLog:
    """A log that was written: the set that it is about, its file, and its answers."""

    set_name: str
    path: Path
    answers: int


def write_inspect_logs(
    run: Path, out: Path, *, on_progress: Callable[[int], None] = lambda _: None
) -> tuple[list[InspectLog], list[str]]:
    """Write ``<out>/<set>.eval`` and ``<out>/<set>-greedy.eval`` for every set of a run.

    A sample is an epoch of Inspect's; scores are ``verdict``: C or I, with outcome and reason. Also
    returned is what is missing from the logs: prompts that neither the run nor its recipe knows.

    Raises:
        DataError: the run was not evaluated, a file is damaged, or ``out`` is a file.
        SettingsError: the run's recipe is not valid.
    """
    table = read_samples(require_evaluated(run))
    recipe = load_recipe(run / RECIPE) if (run / RECIPE).is_file() else None
    problems, notes = read_set_problems({run: recipe})
    if out.exists() and not out.is_dir():
        raise DataError(f"--out names the directory of the logs, {out} is a file")
    summaries = _summaries(run)
    logs = []
    for name in dict.fromkeys(table["set"].to_pylist()):
        of_set = table.filter(pc.field("set") == name)
        for greedy in (False, True):
            chosen = of_set.filter((pc.field("sample_index") == GREEDY_INDEX) == greedy)
            if not chosen.num_rows:
                continue
            path = out / f"{_file_name(name)}{'-greedy' if greedy else ''}.eval"
            head = _head(run, recipe, name, chosen, summaries.get(name, {}), greedy=greedy)
            make_directory(out)
            _write_log(path, head, chosen, problems.get(name, {}), on_progress)
            logs.append(InspectLog(set_name=name, path=path, answers=chosen.num_rows))
    return logs, notes


def _write_log(
    path: Path,
    head: LogHead,
    table: pa.Table,
    problems: Mapping[str, Problem],
    on_progress: Callable[[int], None],
) -> None:
    summaries, scored = [], 0
    with (
        atomic_path(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as log,
    ):
        start = {"version": VERSION, "eval": log_spec(head), "plan": log_plan()}
        _add(log, "_journal/start.json", start)
        for row in _rows(table):
            epoch = max(row["sample_index"], 0) + 1
            sample = log_sample(head, problems.get(row["problem_id"]), row, epoch)
            _add(log, f"samples/{row['problem_id']}_epoch_{epoch}.json", sample)
            summaries.append(sample_summary(sample))
            scored += is_scored(row)
            on_progress(1)
        _add(log, "summaries.json", summaries)
        header = log_header(head, scored=scored, unscored=table.num_rows - scored)
        _add(log, "header.json", header)


def _add(log: zipfile.ZipFile, name: str, document: Any) -> None:
    """Every entry has the same date, so the same run gives the same bytes."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    log.writestr(info, json.dumps(document, ensure_ascii=False, allow_nan=False))


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()


def _head(
    run: Path,
    recipe: Recipe | None,
    set_name: str,
    table: pa.Table,
    summary: Mapping[str, Any],
    *,
    greedy: bool,
) -> LogHead:
    samples = run / SAMPLES
    written = datetime.fromtimestamp(int(samples.stat().st_mtime), UTC)
    metrics, ci95 = _metrics(summary, greedy=greedy)
    return LogHead(
        task=f"{set_name} (greedy)" if greedy else set_name,
        run=str(run),
        model=f"dph/{run.absolute().name}",
        when=written.isoformat(),
        digest=samples_digest(samples) or str(run.absolute()),
        epochs=1 if greedy else max(table["sample_index"].to_pylist()) + 1,
        sample_ids=tuple(dict.fromkeys(table["problem_id"].to_pylist())),
        metrics=metrics,
        ci95=ci95,
        generation=_generation(recipe, greedy=greedy),
        metadata={} if recipe is None else {"method": recipe.method, "seed": recipe.seed},
    )


def _metrics(
    summary: Mapping[str, Any], *, greedy: bool
) -> tuple[dict[str, float], dict[str, Any]]:
    """Scores of the set and their intervals, out of evaluation.json."""
    if greedy:
        found = {"accuracy": summary.get("greedy")}
        ci95 = {"accuracy": summary.get("ci95", {}).get("greedy")}
    else:
        found = {f"pass_at_{k}": value for k, value in summary.get("pass_at_k", {}).items()}
        found |= {key: summary.get(key) for key in ("mean", "effective_styles")}
        ci95 = {key: summary.get("ci95", {}).get(key) for key in found}
    known = {key: float(value) for key, value in found.items() if value is not None}
    return known, {key: ci95[key] for key in known if ci95[key] is not None}


def _generation(recipe: Recipe | None, *, greedy: bool) -> dict[str, Any]:
    if recipe is None:
        return {}
    limit = {"max_tokens": recipe.sampling.max_tokens}
    if greedy:
        return {**limit, "temperature": 0.0}
    return {
        **limit,
        "temperature": recipe.evaluate.temperature,
        "top_p": recipe.evaluate.top_p,
    }


def _summaries(run: Path) -> Mapping[str, Any]:
    if not (run / EVALUATION).is_file():
        return {}
    found: Mapping[str, Any] = read_json(run / EVALUATION)["sets"]
    return found


def _file_name(set_name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in set_name)
