"""The checkpoints of one run: where it goes on from, when it saves, and which it keeps."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from dph.errors import VerifierError
from dph.recipe import Recipe
from dph.runs.train.actors import Actors
from dph.runs.train.best_checkpoint import BestCheckpoint, read_best, write_best
from dph.runs.train.checkpoint_places import latest_checkpoint
from dph.runs.train.checkpoints import (
    Progress,
    followed_by,
    read_progress,
    read_verifiers,
    remove_old,
    save_checkpoint,
)
from dph.runs.train.optimizer import load_optimizer


class RunCheckpoints:
    """Reads and writes ``checkpoints/`` of a run.

    Attributes:
        newest: the newest checkpoint, if there is one.
        saved_step: the step that it is of.
        restored: how far the run was when it was opened; the optimizer is in that state.
    """

    def __init__(
        self,
        directory: Path,
        recipe: Recipe,
        actors: Actors,
        optimizer: torch.optim.Optimizer,
        *,
        digest: str,
        also: Callable[[Path], None],
    ) -> None:
        self._directory, self._actors, self._optimizer = directory, actors, optimizer
        self._train, self._score = recipe.train, recipe.evaluate.keep_best
        self._digest, self._also = digest, also
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
        """Write a checkpoint, unless there is one of this step."""
        if self.newest is not None and self.saved_step == progress.step:
            return self.newest
        verifier = self._actors.draw.verifier
        self.newest = save_checkpoint(
            self._directory,
            progress,
            self._actors.policy,
            self._actors.tokenizer,
            self._optimizer,
            digest=self._digest,
            keep=self._train.keep_checkpoints,
            spare=self._best.step if self._best else None,
            also=self._also,
            verifiers=followed_by(
                read_verifiers(self.newest) if self.newest else (),
                name=verifier.name,
                version=verifier.version,
                first_step=(self.saved_step or 0) + 1,
            ),
        )
        self.saved_step = progress.step
        return self.newest

    def keep_if_best(self, progress: Progress, value: float) -> None:
        """Save and name the checkpoint if ``value`` is above that of all before."""
        if self._score is None or (self._best is not None and value <= self._best.value):
            return
        self.save(progress)
        self._best = BestCheckpoint(step=progress.step, score=self._score, value=value)
        write_best(self._directory, self._best)
        remove_old(self._directory, keep=self._train.keep_checkpoints, spare=progress.step)

    @contextlib.contextmanager
    def saved_if_the_verifier_breaks(self, progress: Progress) -> Iterator[None]:
        """Save the finished steps when the block ends with a VerifierError.

        Answers are graded before anything is learnt from them, so the weights are still those of
        the last finished step.
        """
        try:
            yield
        except VerifierError:
            if progress.step > (self.saved_step or 0):
                self.save(progress)
            raise
