"""Where things lie in a run directory.

<run>/recipe.toml  pool/  stores/<name>/  checkpoints/step_000040/  metrics.jsonl
      progress.parquet  training_samples/             what was measured and drawn while it trained
      evaluation.json  samples.parquet                of the newest checkpoint
      problems.parquet  tokens.parquet                beside every samples.parquet
      base/evaluation.json  base/samples.parquet      of the initial policy
      interpolated/0.5/                               a model between the two, and its evaluation
      consolidation/                                  what followed RL: a run of its own
      forecast.json                                   of a run that `dph consolidate` made
"""

from pathlib import Path

from dph.recipe import Recipe

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
    """Where the named store lies: its ``place``, or ``stores/<name>`` in the run directory."""
    return recipe.stores[name].place or directory / "stores" / name
