"""The base model of the real world: SmolLM2-135M-Instruct as it is, linked and not copied."""

from pathlib import Path
from typing import Any

from dph._base.files import atomic_path, make_directory, write_json
from dph.errors import SettingsError
from dph.model.policies import directory_fingerprint
from lab.smollm2 import HOW, smollm2_place
from lab.worlds.real.kind import BASE_STEPS
from lab.worlds.small_model import MADE_FROM, is_trained
from lab.worlds.world import Progress


def require_model() -> Path:
    """The directory of the language model."""
    found = smollm2_place()
    if found is None:
        raise SettingsError(f"the task 'real' needs SmolLM2-135M-Instruct, which is missing: {HOW}")
    return found


def link_base_model(
    world: Any,  # noqa: ARG001  # every kind of world gives it
    directory: Path,
    *,
    seed: int,  # noqa: ARG001
    steps: int,
    on_progress: Progress | None = None,
) -> None:
    """Make ``directory`` a folder of links to the language model's files, whatever the seed."""
    if steps != BASE_STEPS:
        raise SettingsError(
            f"the base model of the task 'real' is not trained: leave out base_steps, got {steps}"
        )
    link_model(require_model().resolve(), directory)
    if on_progress is not None:
        on_progress(steps)


def link_model(source: Path, directory: Path) -> None:
    """Make ``directory`` a folder of links to a model's files; one that is there is kept."""
    made_from = {"model": directory_fingerprint(source), "directory": str(source)}
    if is_trained(directory, made_from):
        return
    make_directory(directory.parent)
    with atomic_path(directory) as temporary:
        temporary.mkdir()
        for file in sorted(source.iterdir()):
            (temporary / file.name).symlink_to(file)
        write_json(temporary / MADE_FROM, made_from)
