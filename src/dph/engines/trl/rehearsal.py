"""One micro-step of rehearsal: stored answers under the policy, as the objective's own term.

Before the first step, the pools are checked against the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import is_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from dph.engines.trl.config import DPHConfig
from dph.errors import CheckpointError, ModelError
from dph.loss.divergences import Divergence
from dph.loss.objectives import LossBatch, Reduction, anchor_term, row_weights, weighted_sum
from dph.model.forward.logprobs import completion_scores
from dph.model.policies import tokenizer_fingerprint, weight_fingerprint
from dph.recipe import ObjectiveSettings
from dph.recipe.objective import AnchorSettings
from dph.runs.objective import make_objective
from dph.runs.presample.manifest import Manifest, require_policy
from dph.runs.presample.pool import load_pool
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.policy_rows import require_reference
from dph.runs.train.rows import length_of, stored_of_step
from dph.runs.train.updating import TrainingForward, padded


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
    are dealt out to the ranks first and each rank's to its micro-steps. If there are fewer answers
    than places, a place gets the first answer with weight 0: every process must run as many
    forwards as the others, for sharded models.
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
        """The index, from 0, of the micro-step of ``step`` that begins now."""
        same = step == self._step
        self._micro = (self._micro + 1) % micros if same else 0
        self._step = step
        return self._micro


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPool:
    """A pool that stored answers are taken from."""

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
    """Every anchor with a weight; a pool that serves several of them is read once."""
    terms = make_objective(objective)
    settings = {
        name: anchor.model_copy(update={"per_step": anchor.per_step or per_step})
        for name, anchor in objective.active_anchors.items()
    }
    places = {name: settings[name].pool or Path(pool) for name in terms.anchors}
    opened = {}
    for place in set(places.values()):
        found = load_pool(place)
        opened[place] = OpenPool(directory=place, manifest=found.manifest, samples=found.rehearsal)
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
    return list({id(anchor.pool): anchor.pool for anchor in anchors}.values())


def rehearse(
    model: PreTrainedModel, share: Share, divergence: Divergence, *, temperature: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Shares of a step's token means: the divergence with gradient, |log pi - log pi_ref|."""
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
    return anchor_term(batch, divergence), weighted_sum(gap, scores.mask, batch.weights)


# Checks before the first step: the pool is this model's, and TRL can resume here.

CHECK_TOKENS = 16384
"""Padded tokens of one forward when the pool's log-probs are compared."""


def require_pool_of_model(
    pool: OpenPool, *, model: nn.Module, processing_class: object, args: DPHConfig
) -> None:
    """Refuse a pool of another model, tokenizer, temperature or precision.

    Weights below an adapter are not compared by fingerprint, since PEFT renames them; the
    log-probs at step 0 tell.
    """
    if not isinstance(processing_class, PreTrainedTokenizerBase):
        raise ModelError(
            "stored answers are only text, so the processing class must be a tokenizer, got "
            f"{type(processing_class).__name__}"
        )
    require_policy(
        pool.directory,
        pool.manifest,
        tokenizer_fingerprint=tokenizer_fingerprint(processing_class),
        temperature=args.temperature,
        dtype=args.precision,
        model_fingerprint=None if is_peft_model(model) else weight_fingerprint(model),
    )


class StartChecks(TrainerCallback):  # type: ignore[misc]
    """Looks at the weights that training starts from, which a checkpoint may have replaced."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: DPHConfig, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Compare log-probs with the pool's at step 0; later, the step with the rollouts."""
        trainer, step, per_rollout = self._trainer, state.global_step, args.steps_per_rollout
        if not (step / per_rollout).is_integer():
            raise CheckpointError(
                f"the checkpoint is of step {step}, in the middle of a rollout of {per_rollout:g} "
                "optimizer steps (steps_per_generation * num_iterations / "
                "gradient_accumulation_steps): TRL would draw the rollout again with different "
                f"weights. Resume from a step that is a multiple of {per_rollout:g} (set "
                "save_steps so), or use `dph train`, which saves whole rollouts and resumes to the "
                "bit"
            )
        if step:
            return
        forward = TrainingForward(
            model=trainer.accelerator.unwrap_model(trainer.model),
            pad_id=trainer.pad_id,
            temperature=args.temperature,
            dtype=args.precision,
            token_budget=CHECK_TOKENS,
            max_tokens=trainer.max_completion_length,
        )
        for pool in pools_of(trainer.anchors):
            require_reference(pool.samples, forward)
