"""The verifier of a run: whether it changed, and how it compares unlabelled answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dph._base.files import only_writer
from dph.errors import CheckpointError, PoolError, SettingsError
from dph.runs.plan import RunPlan
from dph.runs.presample.manifest import Manifest, ValueSource
from dph.runs.train.checkpoints import current_verifier, read_verifiers, record_verifier
from dph.tasks.agreement import Comparer, KeyComparer, VerifierComparer, compares
from dph.tasks.environments import EnvironmentVerifier
from dph.tasks.verifiers.base import Verifier


def require_same_verifier(plan: RunPlan, checkpoint: Path, *, step: int) -> None:
    """Refuse to continue with a different version of the verifier from the rewards so far.

    Where the change is accepted, the checkpoint says so from now on: steps after ``step`` were
    rewarded by the new version.
    """
    verifier, last = plan.verifier, current_verifier(read_verifiers(checkpoint))
    if last is None or (last.name, last.version) == (verifier.name, verifier.version):
        return
    if not plan.accept_verifier:
        change = _change(verifier, last.version)
        raise CheckpointError(f"{change} since the checkpoint {checkpoint} was written; {_HOW}")
    with only_writer(plan.directory.path):
        record_verifier(
            checkpoint, name=verifier.name, version=verifier.version, first_step=step + 1
        )


def accepted_grading(plan: RunPlan, pool: Manifest) -> ValueSource:
    """The grading that a pool must have: that of now, or of a version that is accepted.

    A version is accepted for good once a checkpoint of the run names it.
    """
    wanted, verifier = plan.grading, plan.verifier
    was = pool.values.graded_version
    if pool.values.graded_by != wanted.graded_by or was == wanted.graded_version:
        return wanted
    if not (plan.accept_verifier or was in _versions_of_run(plan)):
        raise PoolError(f"{_change(verifier, was)} since the pool {plan.pool} was made; {_HOW}")
    return wanted.model_copy(update={"graded_version": was})


_HOW = (
    "undo the change, start in another directory (--out), or continue with the current verifier "
    "(dph run or dph train, with --accept-verifier)"
)


def _change(verifier: Verifier, was: str) -> str:
    source = getattr(verifier, "source", None)
    kind = _kind(verifier)
    if source is not None:
        return f"the {kind} file {source} (of {verifier.name!r}) changed"
    return f"the {kind} {verifier.name!r} changed, from version {was!r} to {verifier.version!r},"


def _versions_of_run(plan: RunPlan) -> set[str]:
    """The versions that a run went through, if the last of them is the verifier of now."""
    checkpoint, verifier = plan.directory.newest_checkpoint, plan.verifier
    history = read_verifiers(checkpoint) if checkpoint is not None else ()
    last = current_verifier(history)
    if last is None or (last.name, last.version) != (verifier.name, verifier.version):
        return set()
    return {each.version for each in history if each.name == verifier.name}


def _kind(verifier: Verifier) -> str:
    return "environment" if isinstance(verifier, EnvironmentVerifier) else "verifier"


@contextmanager
def comparer(plan: RunPlan, agreement: str | None) -> Iterator[Comparer]:
    """Comparer of unlabelled answers; its workers are stopped afterwards.

    Args:
        plan: of the run.
        agreement: the user's own function, or None for the verifier of ``data.verifier``.
    """
    data = plan.recipe.data
    if agreement is not None:
        with KeyComparer(
            agreement,
            workers=data.verifier_workers,
            timeout=data.verifier_timeout,
            directories=data.modules,
        ) as own:
            yield own
        return
    verifier = plan.verifier
    if isinstance(verifier, EnvironmentVerifier) and verifier.verifier is not None:
        verifier = verifier.verifier
    if not compares(verifier):
        raise SettingsError(
            f"self_consistency: the {_kind(verifier)} {verifier.name!r} says what is right, but "
            f"cannot compare two answers: name a function that can in self_consistency.agreement "
            f"('module:callable', f(response, problem) -> key or None), or set "
            f"self_consistency.problems_per_step = 0"
        )
    yield VerifierComparer(verifier)
