"""A run made public: its model card, and the checkpoint that it ended with on the Hub."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelCardData,
    constants,
)

from dph import __version__
from dph._base.files import sha256, write_text
from dph.errors import CheckpointError, DataError, ModelError, SettingsError
from dph.model.hub import bars_for_people, said_plainly
from dph.recipe import Recipe, load_recipe, recipe_toml
from dph.recipe.keys import pattern_of
from dph.recipe.places import PLACES, hub_file, is_model_id, with_directory
from dph.results.charts.tables import INTERVAL_NOTE, cost_document, cost_words, markdown_table
from dph.results.read.run_results import RunResults
from dph.results.vocabulary import method_label, set_label
from dph.runs.directory import MANIFEST, RunDirectory, is_made
from dph.runs.presample.manifest import Manifest, read_manifest
from dph.runs.stage_costs import run_cost

__all__ = ["FinishedRun", "model_card", "push", "read_finished_run", "write_card"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that has a checkpoint: what its card says of it."""

    results: RunResults
    recipe: Recipe
    checkpoint: Path
    base: Mapping[str, Any] | None
    """``evaluation.json`` of the initial policy; None where ``why_alone`` says why."""
    pool: Manifest | None
    hashes: Mapping[str, str]
    """SHA-256 of the manifest of the pool, by name."""

    @property
    def directory(self) -> Path:
        return self.results.path

    @property
    def why_alone(self) -> str | None:
        return self.results.initial.why_none or None


def read_finished_run(directory: Path) -> FinishedRun:
    """Read a run's directory.

    Raises:
        SettingsError: its recipe cannot be read.
        CheckpointError: it has no checkpoint.
        PoolError: its pool's manifest is damaged.
        DataError: an ``evaluation.json`` is damaged, or is not of the run's result.
    """
    results, place = RunResults(directory), RunDirectory(directory)
    recipe = load_recipe(place.recipe_file)
    checkpoint = place.result(recipe.evaluate)
    if checkpoint is None:
        raise CheckpointError(f"there is no checkpoint in {directory}: train it first")
    measured = results.evaluation
    if measured is not None and Path(measured["model"]).name != checkpoint.name:
        raise DataError(
            f"{place.evaluation} is of {Path(measured['model']).name}, but the run ended with "
            f"{checkpoint.name}: run `dph evaluate` first"
        )
    pool = place.pool(recipe)
    has_manifest = recipe.needs_pool and (pool / MANIFEST).is_file()
    base = results.initial.results
    return FinishedRun(
        results=results,
        recipe=recipe,
        checkpoint=checkpoint,
        base=None if base is None else base.evaluation,
        pool=read_manifest(pool) if recipe.needs_pool and is_made(pool) else None,
        hashes={"pool": sha256(pool / MANIFEST)} if has_manifest else {},
    )


def shared_recipe(recipe: Recipe) -> str:
    """The resolved recipe as TOML, with the last name of every path; names on the Hub stay."""
    return tomli_w.dumps(_without_directories(tomllib.loads(recipe_toml(recipe)), ""))


def _without_directories(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        start = f"{key}." if key else ""
        return {name: _without_directories(one, start + name) for name, one in value.items()}
    if pattern_of(key) not in PLACES:
        return value
    return [_last(one) for one in value] if isinstance(value, list) else _last(value)


def _last(path: str) -> str:
    return Path(path).name if Path(path).is_absolute() else with_directory(path, _last)


FILE = "README.md"
_MARK = "<!-- Written by `dph card`. Remove this line to keep your changes. -->"


_USE = """## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("<name>")
tokenizer = AutoTokenizer.from_pretrained("<name>")
```"""


def write_card(run: FinishedRun, path: Path | None = None) -> Path:
    """Write the card of a run, atomically, and return its path: ``README.md`` in its directory.

    Raises:
        DataError: there is another file, or a card that was edited.
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
    """True if a card may be written again: it still says that this wrote it."""
    return _MARK in path.read_text(encoding="utf-8", errors="replace")


def model_card(run: FinishedRun, *, name: str | None = None) -> str:
    """The card as markdown, with the Hub's metadata before it; ``name`` is the model's there."""
    recipe = run.recipe
    files = [recipe.data.train, *(one.path for one in recipe.data.sets.values())]
    named = dict.fromkeys(file.repo for file in map(hub_file, files) if file)
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=recipe.model.path if is_model_id(recipe.model.path) else None,
        datasets=list(named) or None,
        tags=["dph", "reinforcement-learning", recipe.method],
    )
    parts = [
        f"---\n{metadata.to_yaml()}\n---\n{_MARK}",
        f"# {name or recipe.name}",
        f"{_initial(recipe)}, trained with {method_label(recipe.method)} by dph {__version__}.",
        *([f"> {recipe.notes}"] if recipe.notes else []),
        "## Measured",
        *_measured(run),
        "## Made from",
        "\n".join(_origin(run)),
        *([_USE.replace("<name>", name)] if name else []),
        "## Recipe",
        f"```toml\n{shared_recipe(recipe).strip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _initial(recipe: Recipe) -> str:
    model = recipe.model
    if model.revision is None:
        return f"`{Path(model.path).name}`"
    return f"`{model.path}` at `{model.revision}`"


def _measured(run: FinishedRun) -> Iterator[str]:
    measured = run.results.evaluation
    if measured is None:
        yield "Not measured."
        return
    summary = {"base": run.base, "methods": {run.recipe.method: measured}}
    yield f"{measured['samples']} samples per problem, {INTERVAL_NOTE}."
    for name, of_set in measured["sets"].items():
        ks = sorted(map(int, of_set["pass_at_k"]))
        yield f"### {set_label(name)}: {of_set['problems']} problems"
        yield markdown_table(summary, set_name=name, ks=ks).strip()


def _origin(run: FinishedRun) -> Iterator[str]:
    recipe = run.recipe
    yield f"- initial policy: {_initial(recipe)}"
    yield f"- training problems: `{hub_file(recipe.data.train) or recipe.data.train.name}`"
    for name, one in recipe.data.sets.items():
        yield f"- evaluation set {set_label(name)}: `{hub_file(one.path) or one.path.name}`"
    yield f"- method: `{recipe.method}`, seed {recipe.seed}, checkpoint `{run.checkpoint.name}`"
    if cost := cost_words(cost_document(run_cost(run.directory, recipe))):
        yield f"- cost of all stages: {cost}"
    yield f"- verifier: `{recipe.data.verifier}`"
    for name, digest in run.hashes.items():
        yield f"- {name}: SHA-256 of its manifest `{digest}`"
    if run.pool is not None:
        source = run.pool.source
        yield f"- weights of the initial policy: SHA-256 `{source.model_fingerprint}`"
        yield f"- training problems: SHA-256 `{source.prompts_fingerprint}`"


_OF_TRAINING = {"optimizer.safetensors", "trainer.json", "recent.parquet"}
"""Files of a checkpoint that only a resumed training reads."""
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


def push(run: FinishedRun, name: str, *, private: bool = False) -> str:
    """Upload weights, tokenizer, card and recipe in one commit, and return its address.

    The repository is made if it does not exist (``private``); older weights under other names are
    deleted. An adapter is merged into the weights that it was trained on. A card in the run's
    directory that was edited is uploaded unchanged. Nothing of the optimizer, of prompts or of
    answers is uploaded, and no path of this machine.

    Raises:
        SettingsError: ``name`` is not of the form org/name.
        ModelError: the Hub cannot be reached, or does not allow it.
    """
    if not is_model_id(name):
        raise SettingsError(f"a model on the Hub is called <owner>/<name>, got {name!r}")
    api = HfApi(endpoint=constants.ENDPOINT)
    with (
        _model_files(run) as files,
        said_plainly(f"push to {name}", ModelError),
        _uploading(name),
        bars_for_people(),
    ):
        own = run.directory / FILE
        kept = own.is_file() and not is_ours(own)
        card: Path | bytes = own if kept else model_card(run, name=name).encode()
        recipe = shared_recipe(run.recipe).encode()
        content: dict[str, Path | bytes] = {**files, FILE: card, "recipe.toml": recipe}
        api.create_repo(name, private=private, exist_ok=True)
        gone = [
            path
            for path in api.list_repo_files(name)
            if path not in content and any(fnmatch(path, pattern) for pattern in _WEIGHTS)
        ]
        commit = api.create_commit(
            name,
            operations=[
                *(CommitOperationDelete(path_in_repo=path) for path in gone),
                *(
                    CommitOperationAdd(path_in_repo=path, path_or_fileobj=data)
                    for path, data in content.items()
                ),
            ],
            commit_message=f"{run.recipe.name}: {run.recipe.method}, {run.checkpoint.name}",
        )
    return str(commit.commit_url)


@contextmanager
def _model_files(run: FinishedRun) -> Iterator[dict[str, Path]]:
    """The files of the run's result by name; with an adapter those of the merged model."""
    from dph.model.policies import is_adapter  # noqa: PLC0415 - loads torch, which a card does not
    from dph.runs.finished_models import ends_of  # noqa: PLC0415
    from dph.runs.written_models import save_whole  # noqa: PLC0415

    with TemporaryDirectory() as temporary:
        directory = run.checkpoint
        if is_adapter(directory):
            directory = Path(temporary)
            save_whole(ends_of(run.directory), directory)
        yield {
            path.name: path
            for path in sorted(directory.iterdir())
            if path.is_file() and path.name not in _OF_TRAINING
        }


@contextmanager
def _uploading(name: str) -> Iterator[None]:
    """A file that did not arrive is told by its name; nothing is committed then."""
    try:
        yield
    except RuntimeError as error:  # huggingface_hub's own, around what went wrong
        cause = str(error.__cause__ or "").strip().splitlines()
        raise ModelError(f"push to {name}: {error} {cause[0] if cause else ''}".rstrip()) from error
