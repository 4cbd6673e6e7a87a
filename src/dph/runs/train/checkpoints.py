"""Checkpoints: a transformers directory, the optimizer in safetensors, and a little JSON.

    checkpoints/step_000040/
      config.json model.safetensors tokenizer.json ...   AutoModelForCausalLM reads it
      adapter_config.json adapter_model.safetensors ...  instead: a run with an adapter
      optimizer.safetensors                              "<parameter index>.<name>"
      trainer.json                                       step, position, digest, verifiers
    checkpoints/best.json                                the best of them, if one was measured

Written to a temporary name and renamed, so that every checkpoint is whole.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph._base.files import atomic_path, make_directory, read_json, write_json
from dph.errors import CheckpointError, DataError, TrainingError, VerifierError
from dph.model.policies import save_policy
from dph.recipe import Recipe
from dph.runs.directory import (
    BestCheckpoint,
    checkpoint_of,
    checkpoints_in_order,
    latest_checkpoint,
    read_best,
    step_of,
    write_best,
)
from dph.runs.train.collect import NoSignalError
from dph.runs.train.optimizer import load_optimizer, save_optimizer
from dph.runs.train.rows import Position
from dph.tasks.verifiers.base import Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of training; with the weights and the optimizer, the whole of its state."""

    step: int = 0
    optimizer_steps: int = 0
    position: Position = field(default_factory=Position)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierVersion:
    """Version of the verifier that gave the rewards from a step on."""

    name: str
    version: str
    first_step: int = 1


def write_progress(
    directory: Path, progress: Progress, *, digest: str, verifiers: Sequence[VerifierVersion] = ()
) -> None:
    """Write the ``trainer.json`` of a checkpoint."""
    made_by = {"digest": digest, "verifiers": [asdict(each) for each in verifiers]}
    write_json(directory / "trainer.json", {**made_by, **asdict(progress)})


def remove_old(directory: Path, *, keep: int, spare: int | None = None) -> None:
    """Remove all checkpoints but the newest ``keep`` and the one of the step ``spare``."""
    for old in checkpoints_in_order(directory)[:-keep]:
        if step_of(old) != spare:
            shutil.rmtree(old)


def read_progress(path: Path, *, digest: str) -> Progress:
    """The progress of a checkpoint, which must be of the settings of ``digest``."""
    made_with, _, progress = _read(path)
    if made_with != digest:
        raise CheckpointError(
            f"the checkpoint {path} was made with other settings; continue with the recipe in its "
            "run directory, or train into a different directory (--out)"
        )
    return progress


def read_verifiers(path: Path) -> tuple[VerifierVersion, ...]:
    """Verifiers that gave the rewards up to a checkpoint, in order."""
    return _read(path)[1]


def followed_by(
    verifiers: Sequence[VerifierVersion], verifier: Verifier, *, first_step: int
) -> tuple[VerifierVersion, ...]:
    """The verifiers of a run whose steps from ``first_step`` on are rewarded by ``verifier``."""
    name, version = verifier.name, verifier.version
    if verifiers and (verifiers[-1].name, verifiers[-1].version) == (name, version):
        return tuple(verifiers)
    return (*verifiers, VerifierVersion(name=name, version=version, first_step=first_step))


def record_verifier(path: Path, verifier: Verifier, *, first_step: int) -> None:
    """Write into a checkpoint that the run continues with this verifier."""
    digest, verifiers, progress = _read(path)
    verifiers = followed_by(verifiers, verifier, first_step=first_step)
    write_progress(path, progress, digest=digest, verifiers=verifiers)


def _read(path: Path) -> tuple[str, tuple[VerifierVersion, ...], Progress]:
    try:
        content: dict[str, Any] = dict(read_json(path / "trainer.json"))
        digest = content.pop("digest")
        verifiers = tuple(VerifierVersion(**each) for each in content.pop("verifiers", ()))
        position = Position(**content.pop("position"))
        return digest, verifiers, Progress(**content, position=position)
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {path} is damaged: {error}") from error


class RunCheckpoints:
    """Reads and writes ``checkpoints/`` of a run.

    Attributes:
        newest: the newest checkpoint, if there is one.
        saved_step: its step.
        restored: progress when the run was opened; the optimizer is in that state.
    """

    def __init__(
        self,
        directory: Path,
        recipe: Recipe,
        policy: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        optimizer: torch.optim.Optimizer,
        *,
        verifier: Verifier,
        digest: str,
    ) -> None:
        self._directory, self._policy, self._tokenizer = directory, policy, tokenizer
        self._train, self._score = recipe.train, recipe.evaluate.keep_best
        self._optimizer, self._verifier, self._digest = optimizer, verifier, digest
        self.newest = latest_checkpoint(directory)
        self.restored = Progress()
        if self.newest is not None:
            self.restored = read_progress(self.newest, digest=digest)
            load_optimizer(self.newest, optimizer)
        self.saved_step = self.restored.step if self.newest else None
        self._best = read_best(directory, score=self._score)

    def is_due(self, step: int) -> bool:
        """At every ``checkpoint_every``-th step and at the last."""
        return step % self._train.checkpoint_every == 0 or step == self._train.steps

    def save(self, progress: Progress) -> Path:
        """Write a checkpoint unless this step has one."""
        if self.newest is not None and self.saved_step == progress.step:
            return self.newest
        verifiers = followed_by(
            read_verifiers(self.newest) if self.newest else (),
            self._verifier,
            first_step=(self.saved_step or 0) + 1,
        )
        path = checkpoint_of(make_directory(self._directory), progress.step)
        try:
            with atomic_path(path) as temporary:
                temporary.mkdir()
                save_policy(self._policy, temporary)
                self._tokenizer.save_pretrained(temporary)
                save_optimizer(self._optimizer, temporary)
                write_progress(temporary, progress, digest=self._digest, verifiers=verifiers)
        except SafetensorError as error:  # its way to say that the disk is full
            raise TrainingError(f"cannot write the checkpoint {path}: {error}") from error
        spare = self._best.step if self._best else None
        remove_old(self._directory, keep=self._train.keep_checkpoints, spare=spare)
        self.newest, self.saved_step = path, progress.step
        return path

    def keep_if_best(self, progress: Progress, value: float) -> None:
        """Save the checkpoint and name it the best if ``value`` is above that of all others."""
        if self._score is None or (self._best is not None and value <= self._best.value):
            return
        self.save(progress)
        self._best = BestCheckpoint(step=progress.step, score=self._score, value=value)
        write_best(self._directory, self._best)
        remove_old(self._directory, keep=self._train.keep_checkpoints, spare=progress.step)

    @contextlib.contextmanager
    def saved_if_nothing_is_learnt(self, progress: Progress) -> Iterator[None]:
        """Save the finished steps when the block ends without an answer to learn from.

        Answers are graded before anything is learnt from them, so the weights are still those of
        the last finished step.
        """
        try:
            yield
        except (VerifierError, NoSignalError):
            if progress.step > (self.saved_step or 0):
                self.save(progress)
            raise
