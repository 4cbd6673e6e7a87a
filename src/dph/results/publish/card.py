"""The model card of a run: what was trained from what, how, and what was measured."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from huggingface_hub import ModelCardData

from dph import __version__
from dph._base.files import read_json, sha256, write_text
from dph.errors import CheckpointError, DataError
from dph.recipe import Recipe, load_recipe, recipe_toml
from dph.recipe.hub_names import PLACES, hub_file, is_model_id
from dph.recipe.keys import pattern_of
from dph.results.charts.palette import method_label, set_label
from dph.results.charts.tables import INTERVAL_NOTE, cost_document, cost_words, markdown_table
from dph.runs.found_runs import find_base
from dph.runs.layout import EVALUATION, RECIPE, pool_directory, store_directory
from dph.runs.presample.manifest import Manifest, read_manifest
from dph.runs.result_model import result_model
from dph.runs.stage_costs import run_cost

# What a run's directory says about its result.


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that has a checkpoint, and what was measured of it."""

    directory: Path
    recipe: Recipe
    checkpoint: Path
    base: Mapping[str, Any] | None
    """``evaluation.json`` of the initial policy; None where ``why_alone`` says why."""
    why_alone: str | None
    evaluation: Mapping[str, Any] | None
    """``evaluation.json`` of the checkpoint."""
    pool: Manifest | None
    hashes: Mapping[str, str]
    """SHA-256 of the manifests of the pool and of the stores, by name."""


def read_finished_run(directory: Path) -> FinishedRun:
    """Read a run's directory.

    Raises:
        SettingsError: its recipe cannot be read.
        CheckpointError: it has no checkpoint.
        PoolError: its pool's manifest is damaged.
        DataError: an ``evaluation.json`` is damaged, or is not of the run's result.
    """
    recipe = load_recipe(directory / RECIPE)
    checkpoint = result_model(directory, recipe.evaluate)
    if checkpoint is None:
        raise CheckpointError(f"there is no checkpoint in {directory}: train it first")
    manifest = pool_directory(recipe, directory) / "manifest.json"
    made = {"pool": manifest} if recipe.needs_pool else {}
    for name in recipe.used_stores:
        made[f"store {name}"] = store_directory(recipe, directory, name) / "manifest.json"
    base = find_base(directory)
    return FinishedRun(
        directory=directory,
        recipe=recipe,
        checkpoint=checkpoint,
        base=None if base.directory is None else _document(base.directory / EVALUATION),
        why_alone=base.why_none or None,
        evaluation=_of(checkpoint, directory / EVALUATION),
        pool=read_manifest(manifest) if recipe.needs_pool and manifest.is_file() else None,
        hashes={name: sha256(path) for name, path in made.items() if path.is_file()},
    )


def _of(checkpoint: Path, path: Path) -> Mapping[str, Any] | None:
    document = _document(path)
    if document is not None and Path(document["model"]).name != checkpoint.name:
        raise DataError(
            f"{path} is of {Path(document['model']).name}, but the run ended with "
            f"{checkpoint.name}: run `dph evaluate` first"
        )
    return document


def _document(path: Path) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or not {"model", "samples", "sets"} <= content.keys():
        raise DataError(f"{path} is not an evaluation: it lacks model, samples or sets")
    return content


# A recipe that may leave the machine: without the directories that things lie in.


def shared_recipe(recipe: Recipe) -> str:
    """The resolved recipe as TOML, with the last name of every path; names on the Hub stay."""
    return tomli_w.dumps(_shared(tomllib.loads(recipe_toml(recipe)), ""))


def _shared(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name: _value(value, f"{prefix}{name}") for name, value in table.items()}


def _value(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return _shared(value, f"{key}.")
    if pattern_of(key) not in PLACES:
        return value
    return [_last(one) for one in value] if isinstance(value, list) else _last(value)


def _last(path: str) -> str:
    return Path(path).name if Path(path).is_absolute() else path


FILE = "README.md"
_MARK = "<!-- Written by `dph card`. Remove this line to keep your changes. -->"


def write_card(run: FinishedRun, path: Path | None = None) -> Path:
    """Write the card of a run, atomically, and return its path: ``README.md`` in its directory.

    Raises:
        DataError: another file lies there, or a card that somebody has made their own.
    """
    path = path or run.directory / FILE
    if path.exists() and not is_ours(path):
        raise DataError(
            f"{path} was not written by `dph card`, or has been changed since: name another file "
            "(--out), or remove it"
        )
    write_text(path, model_card(run))
    return path


def is_ours(path: Path) -> bool:
    """Whether a card may be written again: it still says that this wrote it."""
    return _MARK in path.read_text(encoding="utf-8", errors="replace")


def model_card(run: FinishedRun, *, name: str | None = None) -> str:
    """The card as markdown, with the Hub's metadata before it; ``name`` is the model's there."""
    recipe = run.recipe
    parts = [
        f"---\n{_metadata(recipe)}\n---\n{_MARK}",
        f"# {name or recipe.name}",
        f"{_initial(recipe)}, trained with {method_label(recipe.method)} by dph {__version__}.",
        *([f"> {recipe.notes}"] if recipe.notes else []),
        "## Measured",
        *_measured(run),
        "## Made from",
        "\n".join(_origin(run)),
        *([_use(name)] if name else []),
        "## Recipe",
        f"```toml\n{shared_recipe(recipe).strip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(recipe: Recipe) -> str:
    files = [recipe.data.train, *(one.path for one in recipe.data.sets.values())]
    named = dict.fromkeys(file.repo for file in map(hub_file, files) if file)
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=recipe.model.path if is_model_id(recipe.model.path) else None,
        datasets=list(named) or None,
        tags=["dph", "reinforcement-learning", recipe.method],
    ).to_yaml()


def _initial(recipe: Recipe) -> str:
    model = recipe.model
    if model.revision is None:
        return f"`{Path(model.path).name}`"
    return f"`{model.path}` at `{model.revision}`"


def _measured(run: FinishedRun) -> Iterator[str]:
    if run.evaluation is None:
        yield "Not measured."
        return
    summary = {"base": run.base, "methods": {run.recipe.method: run.evaluation}}
    yield f"{run.evaluation['samples']} samples a problem, {INTERVAL_NOTE}."
    for name, measured in run.evaluation["sets"].items():
        ks = sorted(map(int, measured["pass_at_k"]))
        yield f"### {set_label(name)}: {measured['problems']} problems"
        yield markdown_table(summary, set_name=name, ks=ks).strip()


def _origin(run: FinishedRun) -> Iterator[str]:
    recipe = run.recipe
    yield f"- initial policy: {_initial(recipe)}"
    yield f"- training problems: `{_file(recipe.data.train)}`"
    for name, one in recipe.data.sets.items():
        yield f"- evaluation set {set_label(name)}: `{_file(one.path)}`"
    yield f"- method: `{recipe.method}`, seed {recipe.seed}, checkpoint `{run.checkpoint.name}`"
    if cost := cost_words(cost_document(run_cost(run.directory, recipe))):
        yield f"- cost of all stages: {cost}"
    yield f"- verifier: `{recipe.data.verifier}`"
    for name, digest in run.hashes.items():
        yield f"- {name}: SHA-256 of its manifest `{digest}`"
    if run.pool is not None:
        source = run.pool.source
        yield f"- weights of the initial policy: SHA-256 `{source.model_fingerprint}`"
        yield f"- training problems: SHA-256 `{source.problems_fingerprint}`"


def _file(path: Path) -> str:
    return str(hub_file(path) or path.name)


def _use(name: str) -> str:
    code = (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f'model = AutoModelForCausalLM.from_pretrained("{name}")\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")'
    )
    return f"## Use\n\n```python\n{code}\n```"
