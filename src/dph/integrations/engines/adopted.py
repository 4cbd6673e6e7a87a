"""The weights that an engine left, as a checkpoint of the run."""

import shutil
from pathlib import Path

from dph.files import atomic_path, make_directory
from dph.runs.workbench import Workbench
from dph.training.actors import Trained
from dph.training.checkpoints import Progress, VerifierVersion, remove_old, write_progress


def adopt(bench: Workbench, directory: Path, model: Path, *, step: int, digest: str) -> Trained:
    """Make ``checkpoints/step_NNNNNN`` of the transformers directory ``model``, which moves there.

    The tokenizer is the run's own, so that what the recipe says of chat templates stays with it.
    There is no optimizer in it, the engine's own checkpoints have that, and no pickled arguments.
    """
    train, verifier = bench.recipe.train, bench.verifier
    checkpoints = make_directory(directory / "checkpoints")
    path = checkpoints / f"step_{step:06d}"
    with atomic_path(path) as temporary:
        shutil.copytree(model, temporary, ignore=shutil.ignore_patterns("*.bin", "README.md"))
        bench.tokenizer.save_pretrained(temporary)
        write_progress(
            temporary,
            Progress(step=step, optimizer_steps=step * train.minibatches * train.epochs),
            digest=digest,
            verifiers=(VerifierVersion(name=verifier.name, version=verifier.version),),
        )
    shutil.rmtree(model)
    remove_old(checkpoints, keep=train.keep_checkpoints)
    return Trained(checkpoint=path, step=step, stopped=False)
