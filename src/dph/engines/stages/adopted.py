"""The weights that an engine left, as a checkpoint of the run."""

import shutil
from pathlib import Path

from safetensors import safe_open

from dph._base.files import atomic_path, make_directory, read_json, write_json
from dph.errors import CheckpointError
from dph.runs.train.actors import Trained
from dph.runs.train.checkpoints import Progress, VerifierVersion, remove_old, write_progress
from dph.runs.workbench import Workbench


def adopt(bench: Workbench, directory: Path, model: Path, *, step: int, digest: str) -> Trained:
    """Make ``checkpoints/step_NNNNNN`` of the weights in the transformers directory ``model``.

    The tokenizer is the run's own, so that what the recipe says of chat templates stays with it.
    There is no optimizer in it, the engine's own checkpoints have that, and no pickled arguments.
    """
    train, verifier = bench.recipe.train, bench.verifier
    checkpoints = make_directory(directory / "checkpoints")
    path = checkpoints / f"step_{step:06d}"
    with atomic_path(path) as temporary:
        shutil.copytree(model, temporary, ignore=shutil.ignore_patterns("*.bin", "README.md"))
        _say_the_dtype(temporary)
        bench.tokenizer.save_pretrained(temporary)
        write_progress(
            temporary,
            Progress(step=step, optimizer_steps=step * train.minibatches * train.epochs),
            digest=digest,
            verifiers=(VerifierVersion(name=verifier.name, version=verifier.version),),
        )
    remove_old(checkpoints, keep=train.keep_checkpoints)
    return Trained(checkpoint=path, step=step, stopped=False)


def _say_the_dtype(directory: Path) -> None:
    """Let ``config.json`` name the weights' dtype: verl writes bfloat16 beside float32 weights."""
    found = set[str]()
    for path in directory.glob("*.safetensors"):
        with safe_open(path, framework="np") as file:
            found |= {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    names = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
    if len(found) != 1 or next(iter(found)) not in names:
        raise CheckpointError(f"the weights in {directory} should have one dtype, got {found}")
    path = directory / "config.json"
    said = {key: value for key, value in read_json(path).items() if key != "torch_dtype"}
    write_json(path, {**said, "dtype": names[found.pop()]})
