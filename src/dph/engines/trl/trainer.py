"""``trl.GRPOTrainer`` with the objective of a recipe.

Three methods of TRL are overridden: ``compute_loss`` adds the anchors, and the two that make
rewards and advantages let an advantage that TRL lacks replace its own. Two more, for log-probs and
micro-batches, are TRL's unless prompts are shared.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from dph.engines.trl.config import DPHConfig, own_advantage
from dph.engines.trl.rehearsal import (
    MicroStep,
    MicroSteps,
    StartChecks,
    open_anchors,
    pools_of,
    rehearsal_share,
    rehearse,
    require_pool_of_model,
)
from dph.engines.trl.shared import refuse_settings, refuse_trainer, regrouped, shared_scores
from dph.errors import SettingsError
from dph.loss.objectives import AnyAdvantage, GroupSamples, graded_advantages, reads_of
from dph.recipe.objective import REHEARSAL
from dph.recipe.terms import LOGPROBS
from dph.runs.objective import make_objective
from dph.runs.train.rows import require_lengths

_MEASURED = ("loss", "log_ratio", "tokens")
METRICS = tuple(f"{REHEARSAL}/{name}" for name in _MEASURED)
"""Columns that an optimizer step adds to TRL's log for the anchor ``rehearsal``, and for every
other one under its name: the mean of the divergence and of |log pi - log pi_ref| over the step's
stored tokens (nats a token), before its weight, and their number."""


class DPHTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPO on new samples plus f-divergences on stored answers (arXiv:2509.07430).

    Every argument after ``args`` goes to ``trl.GRPOTrainer`` by name. With eta = 0 it is that
    trainer. The stored answers of an optimizer step are a function of (``args.seed``, global
    step, rank), so a resumed run rehearses what an uninterrupted one would have.

    With ``shared_prompts`` log-probs, entropies and gradients come from the packed forward of
    ``dph train``, in which the completions of a prompt share it. Only the order of rows within an
    optimizer step changes: its micro-batches hold groups where TRL mixes them, and what TRL takes
    over a micro-batch (``bnpo``, ``entropy_coef``, ``top_entropy_quantile``) is of those.

    Raises:
        SettingsError: ``args`` is not a ``DPHConfig``, a user-defined term cannot be imported, or
            prompts cannot be shared with this model or these settings.
        PoolError: a pool is damaged, or was made with another model, tokenizer, temperature or
            precision; when training starts, that its log-probs are not the policy's.
        CheckpointError: when training starts, a resume in the middle of a rollout.
    """

    _buffered_inputs: Any

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: DPHConfig | None = None,
        *,
        shared_prompts: bool = False,
        **keywords: Any,
    ) -> None:
        if not isinstance(args, DPHConfig):
            raise SettingsError(f"args must be a DPHConfig, got {type(args).__name__}")
        self.shared_prompts = shared_prompts
        if shared_prompts:
            refuse_settings(args)
        terms = args.terms
        self.anchors = open_anchors(terms, pool=args.pool, per_step=args.rehearsal_per_step)
        own = make_objective(terms).advantage if own_advantage(terms) else None
        self.own_advantage: AnyAdvantage | None = own
        super().__init__(model, reward_funcs, args, **keywords)
        if shared_prompts:
            refuse_trainer(self)
        if self.anchors:
            for pool in pools_of(self.anchors):  # by what made them; later by log-probs
                require_pool_of_model(
                    pool, model=self.model, processing_class=self.processing_class, args=args
                )
                require_lengths(
                    pool.samples,
                    reduction=terms.reduction,
                    most=self.max_completion_length,
                    place=pool.directory,
                )
            self.add_callback(StartChecks(self))
        self._micro_steps = MicroSteps()
        self._step_sums = torch.zeros(len(self.anchors), 2)
        self._rewards = torch.zeros(0)

    @property
    def pad_id(self) -> int:
        return int(self.processing_class.pad_token_id)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL's micro-batch; if prompts are shared, a new rollout's hold whole groups."""
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self.shared_prompts or self._buffered_inputs is before:
            return inputs
        # No window reaches into the next optimizer step, whichever of the two is longer.
        window = math.gcd(len(self._buffered_inputs), self.args.gradient_accumulation_steps)
        self._buffered_inputs = regrouped(self._buffered_inputs, window)
        return self._buffered_inputs[self._step % len(self._buffered_inputs)]

    def _get_per_token_logps_and_entropies(self, *rows: Any, **keywords: Any) -> Any:
        """TRL's log-probs, entropies and loss of routers; only the first two if prompts share."""
        if self.shared_prompts:
            return shared_scores(self, *rows, **keywords)
        return super()._get_per_token_logps_and_entropies(*rows, **keywords)

    def _calculate_rewards(self, *arguments: Any, **keywords: Any) -> Tensor:
        """TRL's rewards of all processes, kept until the advantages are made of them."""
        self._rewards = super()._calculate_rewards(*arguments, **keywords)
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """TRL's batch, with the advantages of the objective if TRL lacks them."""
        batch = super()._generate_and_score_completions(inputs)
        if self.own_advantage is None:
            return batch
        samples = self.num_generations if self.model.training else self.num_generations_eval
        reads = LOGPROBS in reads_of(self.own_advantage)
        advantages = all_advantages(
            self.own_advantage,
            self._rewards,
            self.reward_weights,
            samples=samples,
            read=read_logprobs(self, batch, samples=samples) if reads else None,
        )
        mine = len(batch["advantages"])
        first = self.accelerator.process_index * mine
        batch["advantages"] = advantages[first : first + mine]
        logged = self._logs["advantages"]  # those of TRL are the last ones
        for _ in range(min(len(logged), len(advantages))):
            logged.pop()
        logged.extend(advantages.tolist())
        return batch

    def compute_loss(self, model: Any, *inputs: Any, **keywords: Any) -> Tensor:
        """TRL's loss, and in training the anchors' terms of this micro-step."""
        loss: Tensor = super().compute_loss(model, *inputs, **keywords)
        return loss + self._rehearse(model) if self.anchors and model.training else loss

    def _rehearse(self, model: Any) -> Tensor:
        micros = self.current_gradient_accumulation_steps
        place = MicroStep(
            rank=self.accelerator.process_index,
            ranks=self.accelerator.num_processes,
            micro=self._micro_steps.next(self.state.global_step, micros),
            micros=micros,
        )
        shares = [
            rehearsal_share(
                anchor.pool.samples,
                anchor.settings,
                self.state.global_step + 1,
                place,
                seed=self.args.seed,
                reduction=self.args.terms.reduction,
                max_tokens=self.max_completion_length,
            )
            for anchor in self.anchors
        ]
        # Under data parallelism the policy's forward went through the wrapper, whose gradient
        # hooks wait for the sum of all terms; these must not start them a second time.
        policy, heat = self.accelerator.unwrap_model(model), self.temperature
        with self.accelerator.autocast():  # of what ``forward`` is wrapped in, for its parts too
            terms = [
                rehearse(policy, share, anchor.divergence, temperature=heat, pad_id=self.pad_id)
                for anchor, share in zip(self.anchors, shares, strict=True)
            ]
        sums = torch.stack([torch.stack([loss.detach(), gap]) for loss, gap in terms])
        self._log_rehearsal(sums, [share.tokens for share in shares], place)
        weighted = [a.weight * loss for a, (loss, _) in zip(self.anchors, terms, strict=True)]
        return sum(weighted[1:], start=weighted[0])

    def _log_rehearsal(self, sums: Tensor, tokens: list[int], place: MicroStep) -> None:
        """Hand a finished step's numbers to TRL, which averages them until it logs."""
        so_far = self._step_sums.to(sums.device) if place.micro else torch.zeros_like(sums)
        self._step_sums = so_far + sums
        if place.micro < place.micros - 1:
            return
        means = self.accelerator.reduce(self._step_sums, reduction="mean").tolist()
        for anchor, values, count in zip(self.anchors, means, tokens, strict=True):
            for name, value in zip(_MEASURED, (*values, float(count)), strict=True):
                self._metrics["train"][f"{anchor.name}/{name}"].append(value)


def all_advantages(
    advantage: AnyAdvantage,
    rewards: Tensor,
    weights: Tensor,
    *,
    samples: int,
    read: GroupSamples | None = None,
) -> Tensor:
    """One advantage for each sample of all processes, in the order of ``rewards``.

    ``rewards`` have a row for each sample and a column for each reward function, NaN if it
    returned None. ``read`` is what the term reads of the same samples, in groups.

    Computed as: TRL's weighted sum over reward functions, then ``advantage`` of every group of
    ``samples`` consecutive rows. A sample for which all functions returned None could not be
    graded and does not belong to its group.
    """
    graded = ~torch.isnan(rewards).all(dim=1)
    total = (rewards * weights.to(rewards.device)).nansum(dim=1)
    found = graded_advantages(advantage, total.view(-1, samples), graded.view(-1, samples), read)
    return found.flatten()


def read_logprobs(trainer: Any, batch: Mapping[str, Tensor], *, samples: int) -> GroupSamples:
    """Sums of log-probs (nats) and lengths of all processes' samples, in groups.

    They are TRL's old log-probs if it computes any, otherwise those of one more forward: TRL
    leaves them out if every sample is used before the weights move.
    """
    if "pixel_values" in batch:
        raise SettingsError(
            "objective.advantage reads the log-probs of samples, which works only for text; this "
            "batch has images"
        )
    mask = batch["completion_mask"]
    if "tool_mask" in batch:
        mask = mask * batch["tool_mask"]
    logprobs = batch.get("old_per_token_logps")
    if logprobs is None:
        with torch.no_grad():
            logprobs = trainer._get_per_token_logps_and_entropies(
                trainer.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].shape[1],
                batch_size=trainer.args.per_device_train_batch_size,
            )[0]
    sums = torch.where(mask.bool(), logprobs, 0.0).sum(dim=1)
    together = trainer.accelerator.gather(sums).view(-1, samples)
    lengths = trainer.accelerator.gather(mask.sum(dim=1)).view(-1, samples)
    return GroupSamples(logprobs=together.float(), lengths=lengths.long().clamp(min=1))
