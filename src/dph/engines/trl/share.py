"""Which stored answers a process works on: a function of the seed, the step and its place."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dph.loss.objectives import Reduction, row_weights
from dph.runs.train.order import Drawing, stored_of_step
from dph.runs.train.rows import StoredRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroStep:
    """One micro-step of one process, in an optimizer step of many."""

    rank: int
    ranks: int
    micro: int
    micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Stored answers with their weights, and the tokens of the whole step.

    Averaged over ranks, as data parallelism does with gradients, and added up over micro-steps,
    the weights reduce the values of the whole step as the objective says; a token mean gives every
    token the weight 1 / ``tokens``.
    """

    rows: tuple[StoredRow, ...]
    weights: tuple[float, ...]
    tokens: int


def rehearsal_share(
    samples: Sequence[StoredRow],
    drawing: Drawing,
    step: int,
    place: MicroStep,
    *,
    seed: int,
    reduction: Reduction = "token_mean",
    max_tokens: int | None = None,
) -> Share:
    """The part of optimizer step ``step`` (from 1) that falls to ``place``.

    The step's answers are those that the package's own loop draws for (``seed``, ``step``); they
    are dealt out to the ranks first and each rank's to its micro-steps. Where fewer answers than
    places are left, a place gets the first answer with weight 0: every process runs as many
    forwards as the others, which sharded models need.
    """
    rows = stored_of_step(samples, drawing, step, seed=seed)
    lengths = torch.tensor([len(row.completion_ids) for row in rows])
    whole = row_weights(lengths, reduction=reduction, max_tokens=max_tokens)
    weights = (place.ranks * whole).tolist()
    mine = range(len(rows))[place.rank :: place.ranks][place.micro :: place.micros]
    return Share(
        rows=tuple(rows[i] for i in mine) or (rows[0],),
        weights=tuple(weights[i] for i in mine) or (0.0,),
        tokens=int(lengths.sum()),
    )


class MicroSteps:
    """Counts the micro-steps of the optimizer step that is under way."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._micro = 0

    def next(self, step: int, micros: int) -> int:
        """The index, from 0, of the micro-step that begins now in ``step``."""
        same = step == self._step
        self._micro = (self._micro + 1) % micros if same else 0
        self._step = step
        return self._micro
