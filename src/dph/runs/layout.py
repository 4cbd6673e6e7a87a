"""Paths in a run directory.

<run>/recipe.toml  pool/  stores/<name>/  checkpoints/step_000040/  metrics.jsonl
      progress.parquet  training_samples/             what was measured and drawn while it trained
      evaluation.json  samples.parquet                of the newest checkpoint
      problems.parquet  tokens.parquet                beside every samples.parquet
      base/evaluation.json  base/samples.parquet      of the initial policy
      interpolated/0.5/                               a model between the two, and its evaluation
      consolidation/                                  what followed RL: a run of its own
      forecast.json                                   of a run that `dph consolidate` made
"""

import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_json
from dph.errors import DataError
from dph.recipe import Recipe, save_recipe

# Where a directory's checkpoints lie, without reading one: without torch.

_NAME = re.compile(r"step_(\d{6,})")


def latest_checkpoint(directory: Path) -> Path | None:
    """The checkpoint with the most steps, or None."""
    return next(reversed(checkpoints_in_order(directory)), None)


def checkpoints_in_order(directory: Path) -> list[Path]:
    """The checkpoints, those of fewer steps first."""
    found = [path for path in directory.glob("step_*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    """After how many steps it was saved, by its name."""
    return int(checkpoint.name.removeprefix("step_"))


# What a run's directory says once training has begun: its recipe, and the software that trains.

SOFTWARE = "software.json"
"""Versions, and the step from which on they trained: one object for each change."""


def note_beginning(recipe: Recipe, directory: Path, *, done: int) -> None:
    """Write ``recipe.toml``, and what trains the steps after ``done`` into ``software.json``.

    Raises:
        DataError: ``software.json`` is damaged.
    """
    save_recipe(recipe, directory / "recipe.toml")
    now = {"dph": version("dph-rl"), "python": platform.python_version(), **_packages(recipe)}
    # What trained steps that a kill took back is not what trained this run.
    before = [row for row in read_software(directory) if row["first_step"] <= done]
    if not before or before[-1] != {"first_step": before[-1]["first_step"], **now}:
        write_json(directory / SOFTWARE, [*before, {"first_step": done + 1, **now}])


def read_software(directory: Path) -> list[dict[str, Any]]:
    """The objects of ``software.json``, the first first; none of an older run.

    Raises:
        DataError: it is damaged.
    """
    path = directory / SOFTWARE
    if not path.exists():
        return []
    rows = read_json(path)
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("first_step"), int) for row in rows
    ):
        raise DataError(f"{path} is damaged: it should be a list of objects with a first_step")
    return rows


def _packages(recipe: Recipe) -> dict[str, str]:
    engine = () if recipe.train.engine == "own" else (recipe.train.engine,)
    return {name: version(name) for name in ("torch", "transformers", *engine)}


RECIPE, METRICS = "recipe.toml", "metrics.jsonl"
EVALUATION, SAMPLES = "evaluation.json", "samples.parquet"
FORECAST = "forecast.json"
BASE, CONSOLIDATION = "base", "consolidation"


def run_directory(recipe: Recipe, out: Path | None) -> Path:
    """``out``, or ``runs/<name>`` under the working directory."""
    return out if out is not None else Path("runs") / recipe.name


def pool_directory(recipe: Recipe, directory: Path) -> Path:
    """The recipe's pool, or ``pool/`` in the run directory."""
    return recipe.presample.pool or directory / "pool"


def store_directory(recipe: Recipe, directory: Path, name: str) -> Path:
    """Directory of the named store: its ``place``, or ``stores/<name>`` in the run directory."""
    return recipe.stores[name].place or directory / "stores" / name
