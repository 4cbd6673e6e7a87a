"""An evaluation in the trackers of a recipe: scores and some answers, as a run of its own."""

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.runs.evaluate.progress_summary import step_metrics_of
from dph.runs.train.sample_tables import stored_table
from dph.runs.train.tracking import open_trackers, shown_answers
from dph.runs.workbench import Workbench


def track_evaluation(
    bench: Workbench,
    directory: Path,
    samples: pa.Table,
    document: Mapping[str, Any],
    *,
    model: Path,
) -> None:
    """Send what was measured of ``model``, under the name ``<recipe>-evaluation-<directory>``.

    ``samples`` and ``document`` are the content of samples.parquet and evaluation.json.

    Raises:
        SettingsError: a tracker is not installed.
    """
    recipe = bench.recipe
    if not recipe.track.to:
        return
    name, step = f"{recipe.name}-evaluation-{directory.name}", _step_of(model)
    most, seed = shown_answers(recipe.track), recipe.evaluate.seed
    tables = [
        stored_table(samples, bench.sets[one], name=one, step=step, most=most, seed=seed)
        for one in (document["sets"] if most else ())
    ]
    with contextlib.closing(open_trackers(recipe.track, recipe, directory, name=name)) as trackers:
        trackers.log(step_metrics_of(document["sets"]), step=step)
        trackers.log_tables(tables, step=step)


def _step_of(model: Path) -> int:
    """The step of a checkpoint by its name; 0 for a model that no run trained."""
    found = re.fullmatch(r"step_(\d+)", model.name)
    return int(found[1]) if found else 0
