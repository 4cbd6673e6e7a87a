"""``trl.GRPOTrainer`` with the objective of a recipe.

Three methods of TRL are overridden: ``compute_loss`` adds the anchors, and the two that make
rewards and then advantages let an advantage that TRL does not have take the place of its own. Two
more, for log-probs and micro-batches, do nothing but TRL's unless prompts are shared.
"""

import math
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from dph.engines.trl.checks import StartChecks, require_pool_of_model
from dph.engines.trl.config import DPHConfig
from dph.engines.trl.rehearsal import (
    MicroStep,
    MicroSteps,
    Share,
    StoredAnchor,
    open_anchors,
    pools_of,
    rehearsal_share,
    rehearse,
)
from dph.engines.trl.shared import refuse_settings, refuse_trainer, regrouped, shared_scores
from dph.engines.trl.terms import all_advantages, own_advantage, read_logprobs
from dph.errors import SettingsError
from dph.loss.objectives import AnyAdvantage, reads_of
from dph.recipe.aliases import REHEARSAL
from dph.recipe.terms import LOGPROBS
from dph.runs.objective import make_objective

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
        self.own_advantage: AnyAdvantage | None = None
        if own_advantage(terms):
            self.own_advantage = make_objective(terms).advantage
        super().__init__(model, reward_funcs, args, **keywords)
        if shared_prompts:
            refuse_trainer(self)
        if self.anchors:
            self._check_pools(args)
        self._micro_steps = MicroSteps()
        self._step_sums = torch.zeros(len(self.anchors), 2)
        self._rewards = torch.zeros(0)

    def _check_pools(self, args: DPHConfig) -> None:
        """Compare the pools with the model, now by what made them, later by log-probs."""
        pools = pools_of(self.anchors)
        for pool in pools:
            require_pool_of_model(
                pool.manifest,
                pool.directory,
                model=self.model,
                processing_class=self.processing_class,
                args=args,
            )
        self.add_callback(
            StartChecks(
                [pool.samples for pool in pools],
                lambda: self.accelerator.unwrap_model(self.model),
                pad_id=self.pad_id,
                max_tokens=self.max_completion_length,
            )
        )

    @property
    def pad_id(self) -> int:
        """The token that fills up rows of different lengths."""
        return int(self.processing_class.pad_token_id)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL's micro-batch; of a new rollout, micro-batches of whole groups if those share."""
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self.shared_prompts or self._buffered_inputs is before:
            return inputs
        # No window reaches into the next optimizer step, whichever of the two is longer.
        window = math.gcd(len(self._buffered_inputs), self.args.gradient_accumulation_steps)
        self._buffered_inputs = regrouped(self._buffered_inputs, window)
        return self._buffered_inputs[self._step % len(self._buffered_inputs)]

    def _get_per_token_logps_and_entropies(self, *rows: Any, **keywords: Any) -> Any:
        """TRL's log-probs, entropies and loss of routers; or the first two if prompts share."""
        if self.shared_prompts:
            return shared_scores(self, *rows, **keywords)
        return super()._get_per_token_logps_and_entropies(*rows, **keywords)

    def _calculate_rewards(self, *arguments: Any, **keywords: Any) -> Tensor:
        """TRL's rewards, of all processes; remembered until the advantages are made of them."""
        self._rewards = super()._calculate_rewards(*arguments, **keywords)
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """TRL's batch, with the advantages of the objective where TRL does not have them."""
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
        if not (self.anchors and model.training):
            return loss
        return loss + self._rehearse(model)

    def _rehearse(self, model: Any) -> Tensor:
        micros = self.current_gradient_accumulation_steps
        place = MicroStep(
            rank=self.accelerator.process_index,
            ranks=self.accelerator.num_processes,
            micro=self._micro_steps.next(self.state.global_step, micros),
            micros=micros,
        )
        shares = [self._share(anchor, place) for anchor in self.anchors]
        # Under data parallelism the policy's forward went through the wrapper, whose gradient
        # hooks wait for the sum of all terms; these must not start them a second time.
        policy = self.accelerator.unwrap_model(model)
        terms = [
            rehearse(
                policy, share, anchor.divergence, temperature=self.temperature, pad_id=self.pad_id
            )
            for anchor, share in zip(self.anchors, shares, strict=True)
        ]
        sums = torch.stack([torch.stack([term.loss.detach(), term.log_ratio]) for term in terms])
        self._log_rehearsal(sums, [share.tokens for share in shares], place)
        weighted = [a.weight * term.loss for a, term in zip(self.anchors, terms, strict=True)]
        return sum(weighted[1:], start=weighted[0])

    def _share(self, anchor: StoredAnchor, place: MicroStep) -> Share:
        return rehearsal_share(
            anchor.pool.samples,
            anchor.settings,
            self.state.global_step + 1,
            place,
            seed=self.args.seed,
            reduction=self.args.terms.reduction,
            max_tokens=self.max_completion_length,
        )

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
