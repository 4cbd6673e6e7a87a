"""The files of a run: the one module that knows their places. Loads no torch.

<run>/recipe.toml  software.json                      settings and versions that trained it
      pool/                                           unless the recipe names another place
      checkpoints/step_000040/  checkpoints/best.json
      metrics.jsonl  progress.parquet  training_samples/   measurements and answers of training
      verl/                                           files of verl, if that trains
      evaluation.json  samples.parquet                of the newest checkpoint
      problems.parquet  tokens.parquet                next to every samples.parquet
      base/evaluation.json  base/samples.parquet      of the initial policy
      models/<name>/                                  the evaluation of any other model
      interpolated/0.5/                               a model between the two, and its evaluation
"""

import json
import platform
import re
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_json
from dph.errors import CheckpointError, DataError
from dph.recipe import EvaluationSettings, Recipe, save_recipe

RECIPE, METRICS, PROGRESS_FILE = "recipe.toml", "metrics.jsonl", "progress.parquet"
EVALUATION, SAMPLES = "evaluation.json", "samples.parquet"
PROBLEMS_FILE, TOKENS_FILE = "problems.parquet", "tokens.parquet"
BASE, CHECKPOINTS = "base", "checkpoints"
MANIFEST = "manifest.json"
"""The last file that is written into a pool, which is whole if it has one."""


def is_made(place: Path) -> bool:
    """True if the pool in ``place`` is finished."""
    return (place / MANIFEST).exists()


class _Inside:
    """The place of a name inside a directory."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, directory: "EvaluationDirectory", kind: type | None = None) -> Path:
        return directory.path / self._name


@dataclass(frozen=True, slots=True)
class EvaluationDirectory:
    """The directory of the evaluation of one model."""

    path: Path

    evaluation = _Inside(EVALUATION)
    """The scores."""
    samples = _Inside(SAMPLES)
    """The graded answers."""
    problems = _Inside(PROBLEMS_FILE)
    """The problems that were asked."""
    tokens = _Inside(TOKENS_FILE)
    """The tokens of some answers, if ``evaluate.token_details`` asks for them."""


@dataclass(frozen=True, slots=True)
class RunDirectory(EvaluationDirectory):
    """The directory of a run, and of the evaluation of its result."""

    recipe_file = _Inside(RECIPE)
    """The recipe, once training has begun."""
    software = _Inside("software.json")
    """Versions, and the first step that they trained: one object for each change."""
    metrics = _Inside(METRICS)
    """A line for each step."""
    progress = _Inside(PROGRESS_FILE)
    """The evaluations during training."""
    initial_progress = _Inside("progress_initial.parquet")
    """The answers of the initial policy that evaluations during training compare with."""
    training_samples = _Inside("training_samples")
    """Answers of each step."""
    checkpoints = _Inside(CHECKPOINTS)
    """All checkpoints."""
    models = _Inside("models")
    """The evaluations of models that are not the run's."""

    @classmethod
    def of(cls, recipe: Recipe, out: Path | None) -> "RunDirectory":
        """``out``, or ``runs/<name>`` under the working directory."""
        return cls(out if out is not None else Path("runs") / recipe.name)

    def kept_steps(self) -> dict[int, Path]:
        """The files of those answers by step, the oldest first."""
        files = self.training_samples.glob("*.parquet")
        return dict(sorted((int(m[1]), f) for f in files if (m := _NAME.fullmatch(f.stem))))

    @property
    def newest_checkpoint(self) -> Path | None:
        """The checkpoint with the most steps, or None."""
        return latest_checkpoint(self.checkpoints)

    @property
    def base(self) -> EvaluationDirectory:
        """The initial policy's evaluation."""
        return EvaluationDirectory(self.path / BASE)

    def interpolated(self, weight: str) -> EvaluationDirectory:
        """A model between the initial policy and the result, with its evaluation."""
        return EvaluationDirectory(self.path / "interpolated" / weight)

    def engine(self, name: str) -> Path:
        """The files of another engine, ``verl``."""
        return self.path / name

    def pool(self, recipe: Recipe) -> Path:
        """The recipe's pool, or ``pool/`` in the run directory."""
        return recipe.presample.pool or self.path / "pool"

    def result(self, settings: EvaluationSettings) -> Path | None:
        """The checkpoint that the run ends with; None if there is none yet.

        It is the newest, or with ``evaluate.result = "best"`` the best of those that were measured,
        if any was.

        Raises:
            CheckpointError: the file that says which is the best is damaged.
        """
        if settings.result == "newest":
            return self.newest_checkpoint
        return best_place(self.checkpoints, score=settings.keep_best) or self.newest_checkpoint


_NAME = re.compile(r"step_(\d{6,})")


def latest_checkpoint(directory: Path) -> Path | None:
    """The checkpoint with the most steps, or None."""
    return next(reversed(checkpoints_in_order(directory)), None)


def checkpoints_in_order(directory: Path) -> list[Path]:
    """The checkpoints, those of fewer steps first."""
    return sorted((p for p in directory.glob("step_*") if _NAME.fullmatch(p.name)), key=step_of)


def checkpoint_of(directory: Path, step: int) -> Path:
    """The place of the checkpoint after ``step`` steps."""
    return directory / f"step_{step:06d}"


def step_of(model: Path) -> int:
    """The number of steps in the name of a checkpoint; 0 for any other model."""
    found = _NAME.fullmatch(model.name)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BestCheckpoint:
    """The step of a checkpoint, and its score (``evaluate.keep_best``)."""

    step: int
    score: str
    value: float


def read_best(directory: Path, *, score: str | None) -> BestCheckpoint | None:
    """The best checkpoint in ``directory`` by ``score``; None if none is known by this score."""
    path = directory / "best.json"
    if score is None or not path.exists():
        return None
    try:
        content = dict(read_json(path))
        content.pop("schema")
        best = BestCheckpoint(**content)
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error}; remove it to continue") from error
    there = checkpoint_of(directory, best.step).is_dir()
    return best if best.score == score and there else None


def best_place(directory: Path, *, score: str | None) -> Path | None:
    """The best checkpoint itself."""
    best = read_best(directory, score=score)
    return None if best is None else checkpoint_of(directory, best.step)


def write_best(directory: Path, best: BestCheckpoint) -> None:
    """Name the best checkpoint."""
    write_json(directory / "best.json", {"schema": 1, **asdict(best)})


def note_beginning(recipe: Recipe, directory: Path, *, done: int) -> None:
    """Write ``recipe.toml``, and into ``software.json`` the versions of steps after ``done``."""
    run = RunDirectory(directory)
    save_recipe(recipe, run.recipe_file)
    engine = () if recipe.train.engine == "own" else (recipe.train.engine,)
    packages = {name: version(name) for name in ("torch", "transformers", *engine)}
    now = {"dph": version("dph-rl"), "python": platform.python_version(), **packages}
    # The versions of steps that a kill took back did not train this run.
    before = [row for row in read_software(directory) if row["first_step"] <= done]
    if not before or before[-1] != {"first_step": before[-1]["first_step"], **now}:
        write_json(run.software, [*before, {"first_step": done + 1, **now}])


def read_software(directory: Path) -> list[dict[str, Any]]:
    """The objects of ``software.json``, in order; none of an older run."""
    path = RunDirectory(directory).software
    if not path.exists():
        return []
    rows = read_json(path)
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("first_step"), int) for row in rows
    ):
        raise DataError(f"{path} is damaged: it should be a list of objects with a first_step")
    return rows


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a ``metrics.jsonl``; a last line that a kill cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            rows.append(json.loads(line, parse_constant=lambda _: None))  # NaN of other tools
            int(rows[-1]["step"])
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"{path}, line {number} is damaged: {line!r:.60}; "
                "move the file away to continue without it"
            ) from error
    return rows
