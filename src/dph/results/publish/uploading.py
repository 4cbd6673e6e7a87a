"""The checkpoint that a run ended with and its card, on the Hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants

from dph.errors import ModelError, SettingsError
from dph.model.adapter import is_adapter
from dph.model.hub_cache import bars_for_people, said_plainly
from dph.recipe.hub_names import is_model_id
from dph.results.publish.card import FILE, FinishedRun, is_ours, model_card, shared_recipe
from dph.runs.ends import ends_of
from dph.runs.export import save_whole

_OF_TRAINING = {"optimizer.safetensors", "trainer.json", "recent.parquet"}
"""What of a checkpoint only goes on with training."""
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


def push(run: FinishedRun, name: str, *, private: bool = False) -> str:
    """Upload weights, tokenizer, card and recipe in one commit, and return its address.

    The repository is made if need be, ``private`` then; weights that lay there under other names
    are gone. An adapter is merged into the weights that it was trained on. A card in the run's
    directory that somebody has made their own is uploaded as it is.
    Nothing of the optimizer, of prompts or of answers is uploaded, and no path of this machine.

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
        content: dict[str, Path | bytes] = {**files, **_written(run, name)}
        api.create_repo(name, private=private, exist_ok=True)
        gone = [path for path in api.list_repo_files(name) if _is_weight(path, content)]
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


def _written(run: FinishedRun, name: str) -> dict[str, Path | bytes]:
    own = run.directory / FILE
    kept = own.is_file() and not is_ours(own)
    card: Path | bytes = own if kept else model_card(run, name=name).encode()
    return {FILE: card, "recipe.toml": shared_recipe(run.recipe).encode()}


def _is_weight(path: str, content: dict[str, Path | bytes]) -> bool:
    """Whether weights lie there that the new ones do not replace."""
    return path not in content and any(fnmatch(path, pattern) for pattern in _WEIGHTS)
