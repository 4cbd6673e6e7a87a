"""Metrics: always one JSON line for each step, and the trackers of accelerate on request."""

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dph._base.files import write_text
from dph.errors import SettingsError
from dph.recipe import Recipe, TrackingSettings
from dph.runs.train.metrics import Metrics
from dph.runs.train.metrics_file import read_metrics
from dph.runs.train.sample_tables import COLUMNS, SampleTable


class MetricsLog:
    """``metrics.jsonl``: one line for each step, cut back to the checkpoint when a run goes on."""

    def __init__(self, path: Path, *, step: int) -> None:
        """Keep the lines up to ``step``; later ones will be written again."""
        self._path = path
        kept = [line for line in read_metrics(path) if line["step"] <= step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))

    def write(self, metrics: Metrics) -> None:
        """Append one line; a value that is not finite is written as null."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_plain(metrics)) + "\n")

    def amend(self, step: int, metrics: Metrics) -> None:
        """Add to the line of a step what became known of it later; step 0 has no line."""
        lines = read_metrics(self._path)
        amended = [{**line, **_plain(metrics)} if line["step"] == step else line for line in lines]
        if amended != lines:
            write_text(self._path, "".join(json.dumps(line) + "\n" for line in amended))


def _plain(metrics: Metrics) -> dict[str, float | int | None]:
    return {k: v if v is None or math.isfinite(v) else None for k, v in metrics.items()}


class Trackers:
    """TensorBoard, W&B and trackio, through accelerate."""

    def __init__(self, names: Sequence[Any]) -> None:
        self._trackers = names

    def log(self, metrics: Metrics, *, step: int) -> None:
        """Send one step's metrics everywhere."""
        values = {k: v for k, v in metrics.items() if v is not None and k != "step"}
        for tracker in self._trackers:
            tracker.log(values, step=step)

    def log_tables(self, tables: Sequence[SampleTable], *, step: int) -> None:
        """Send answers to the trackers that show tables."""
        for tracker in self._trackers:
            for table in tables if tracker.name in _TABLES else ():
                _TABLES[tracker.name](tracker, table, step)

    def close(self) -> None:
        """Flush and end."""
        for tracker in self._trackers:
            tracker.finish()


def _send_to_wandb(tracker: Any, table: SampleTable, step: int) -> None:
    tracker.log_table(table.name, columns=list(COLUMNS), data=table.lines, step=step)


def _send_to_trackio(tracker: Any, table: SampleTable, step: int) -> None:
    """Trackio takes texts for Markdown, and what a model wrote is none."""
    from trackio import Table  # noqa: PLC0415 - an extra

    cells = [[_fenced(x) if isinstance(x, str) and x else x for x in row] for row in table.lines]
    tracker.log({table.name: Table(columns=list(COLUMNS), data=cells)}, step=step)


def _fenced(text: str) -> str:
    """A text as code, behind a fence that it cannot end by itself."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


_TABLES: dict[str, Callable[[Any, SampleTable, int], None]] = {
    "wandb": _send_to_wandb,
    "trackio": _send_to_trackio,
}


def shown_answers(settings: TrackingSettings) -> int:
    """How many answers of an evaluated set go into a table: none where no tracker shows it."""
    return settings.answers if _TABLES.keys() & set(settings.to) else 0


def open_trackers(
    settings: TrackingSettings, recipe: Recipe, directory: Path, *, name: str | None = None
) -> Trackers:
    """Start the trackers that the recipe names; ``name`` is the run's, else the recipe's.

    Raises:
        SettingsError: accelerate or the tracker's own package is not installed.
    """
    if not settings.to:
        return Trackers(())
    try:
        from accelerate import PartialState  # noqa: PLC0415 - an extra
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"track.to = {list(settings.to)} needs accelerate: install dph-rl[{settings.to[0]}]"
        ) from error
    PartialState(cpu=True)
    trackers = []
    called = name or recipe.name
    for kind in settings.to:
        cls = LOGGER_TYPE_TO_CLASS[kind]
        try:
            if cls.requires_logging_directory:
                tracker = cls(called, str(directory / "logs"))
            else:
                tracker = cls(settings.project, name=called)
            tracker.start()
        except ImportError as error:
            raise SettingsError(
                f"track.to names {kind!r}, which is not installed: install dph-rl[{kind}]"
            ) from error
        tracker.store_init_configuration(_flat(recipe.model_dump(mode="json")))
        trackers.append(tracker)
    return Trackers(trackers)


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str | int | float | bool]:
    flat: dict[str, str | int | float | bool] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, str | int | float | bool):
            flat[f"{prefix}{key}"] = value
        else:
            flat[f"{prefix}{key}"] = json.dumps(value)
    return flat
