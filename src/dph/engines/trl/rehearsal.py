"""One micro-step of rehearsal: stored answers under the policy, as the objective's own term."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.loss.divergences import Divergence
from dph.loss.objectives import LossBatch, Reduction, anchor_term, row_weights, weighted_sum
from dph.model.forward.logprobs import completion_scores
from dph.recipe import ObjectiveSettings
from dph.recipe.objective import AnchorSettings
from dph.runs.objective import make_objective
from dph.runs.presample.manifest import Manifest
from dph.runs.presample.pool import load_pool
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import length_of, stored_of_step
from dph.runs.train.updating import padded

# Which stored answers a process works on: a function of the seed, the step and its place.


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

    rows: tuple[RehearsalSample, ...]
    weights: tuple[float, ...]
    tokens: int


def rehearsal_share(
    samples: Sequence[RehearsalSample],
    settings: AnchorSettings,
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
    rows = stored_of_step(samples, settings, step, seed=seed)
    lengths = torch.tensor([length_of(row) for row in rows])
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


# The anchors of a run with their stored answers.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPool:
    """A pool: what it was made from, and its answers."""

    directory: Path
    manifest: Manifest
    samples: Sequence[RehearsalSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnchor:
    """A divergence, its weight, and the pool whose answers it acts on."""

    name: str
    divergence: Divergence
    weight: float
    settings: AnchorSettings
    pool: OpenPool


def open_anchors(
    objective: ObjectiveSettings, *, pool: str, per_step: int
) -> tuple[StoredAnchor, ...]:
    """Every anchor that weighs anything; a pool that serves several of them is read once.

    Raises:
        PoolError: a pool is missing or damaged.
    """
    terms = make_objective(objective)
    settings = {
        name: anchor.model_copy(update={"per_step": anchor.per_step or per_step})
        for name, anchor in objective.active_anchors.items()
    }
    places = {name: settings[name].pool or Path(pool) for name in terms.anchors}
    opened = {place: _open(place) for place in set(places.values())}
    return tuple(
        StoredAnchor(
            name=name,
            divergence=term.divergence,
            weight=term.weight,
            settings=settings[name],
            pool=opened[places[name]],
        )
        for name, term in terms.anchors.items()
    )


def pools_of(anchors: Sequence[StoredAnchor]) -> list[OpenPool]:
    """The pools of the anchors, each once."""
    return list({id(anchor.pool): anchor.pool for anchor in anchors}.values())


def _open(place: Path) -> OpenPool:
    pool = load_pool(place)
    return OpenPool(directory=place, manifest=pool.manifest, samples=pool.rehearsal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """Shares of a step's token means: the divergence with gradient, |log pi - log pi_ref|."""

    loss: Tensor
    log_ratio: Tensor


def rehearse(
    model: PreTrainedModel,
    share: Share,
    divergence: Divergence,
    *,
    temperature: float,
    pad_id: int,
) -> Rehearsed:
    """Score the stored answers with the training forward and reduce the divergence over them."""
    scores = completion_scores(
        model,
        [row.prompt_ids for row in share.rows],
        [row.completion_ids for row in share.rows],
        temperature=temperature,
        pad_id=pad_id,
        written=[row.written for row in share.rows],
    )
    now, device = scores.logprobs, scores.logprobs.device
    known = padded([row.ref_logprobs for row in share.rows], now.shape[1])
    reference = torch.from_numpy(known).to(device)
    batch = LossBatch(
        logprobs=now,
        old_logprobs=now.detach(),  # not used: there are no new samples here
        ref_logprobs=reference,
        mask=scores.mask,
        advantages=torch.zeros(len(share.rows), device=device),
        source=torch.ones(len(share.rows), dtype=torch.long, device=device),
        weights=torch.tensor(share.weights, device=device),
    )
    gap = (now.detach() - reference).abs()
    return Rehearsed(
        loss=anchor_term(batch, divergence),
        log_ratio=weighted_sum(gap, scores.mask, batch.weights),
    )
