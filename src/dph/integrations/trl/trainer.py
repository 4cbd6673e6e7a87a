"""``trl.GRPOTrainer`` with rehearsal. It overrides ``compute_loss`` and nothing else."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from dph.errors import SettingsError
from dph.integrations.trl.checks import StartChecks, require_pool_of_model
from dph.integrations.trl.config import DPHConfig
from dph.integrations.trl.rehearsal import rehearse
from dph.integrations.trl.share import MicroStep, MicroSteps, Share, rehearsal_share
from dph.objectives import make_objective
from dph.presampling.pool import load_pool

METRICS = ("rehearsal/loss", "rehearsal/log_ratio", "rehearsal/tokens")
"""What an optimizer step adds to TRL's log: the mean of f and of |log pi - log pi_ref| over the
step's stored tokens (nats a token), before eta, and their number."""


class DPHTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPO on new samples plus eta times an f-divergence on stored answers (arXiv:2509.07430).

    Every argument after ``args`` goes to ``trl.GRPOTrainer`` by name. With eta = 0 it is that
    trainer. The stored answers of an optimizer step are a function of (``args.seed``, global
    step, rank), so a resumed run rehearses what an uninterrupted one would have.

    Raises:
        SettingsError: ``args`` is no ``DPHConfig``.
        PoolError: the pool is damaged, or was made with another model, tokenizer, temperature or
            precision; when training starts, that its log-probs are not the policy's.
        CheckpointError: when training starts, a resume in the middle of a rollout.
    """

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: DPHConfig | None = None, **keywords: Any
    ) -> None:
        if not isinstance(args, DPHConfig):
            raise SettingsError(f"args must be a DPHConfig, got {type(args).__name__}")
        anchors = make_objective(args.objective).anchors
        self.divergence = anchors["rehearsal"].divergence if anchors else None
        if self.divergence is not None:
            self.pool_path = Path(args.pool)
            self.pool = load_pool(self.pool_path)
        super().__init__(model, reward_funcs, args, **keywords)
        if self.divergence is not None:
            self._check_pool(args)
        self._micro_steps = MicroSteps()
        self._step_sums = torch.zeros(2)

    def _check_pool(self, args: DPHConfig) -> None:
        """Compare the pool with the model, now by what made it, later by log-probs."""
        require_pool_of_model(
            self.pool,
            self.pool_path,
            model=self.model,
            processing_class=self.processing_class,
            args=args,
        )
        self.add_callback(
            StartChecks(
                self.pool.rehearsal,
                lambda: self.accelerator.unwrap_model(self.model),
                pad_id=self.pad_id,
                max_tokens=self.max_completion_length,
            )
        )

    @property
    def pad_id(self) -> int:
        """The token that fills up rows of different lengths."""
        return int(self.processing_class.pad_token_id)

    def compute_loss(
        self,
        model: Any,
        inputs: Any,
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Tensor:
        """TRL's loss, and in training the rehearsal term of this micro-step."""
        loss: Tensor = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if self.divergence is None or not model.training:
            return loss
        eta: float = self.args.eta
        return loss + eta * self._rehearse(model)

    def _rehearse(self, model: Any) -> Tensor:
        assert self.divergence is not None
        micros = self.current_gradient_accumulation_steps
        place = MicroStep(
            rank=self.accelerator.process_index,
            ranks=self.accelerator.num_processes,
            micro=self._micro_steps.next(self.state.global_step, micros),
            micros=micros,
        )
        share = rehearsal_share(
            self.pool.rehearsal,
            self.args.rehearsal_per_step,
            self.state.global_step + 1,
            place,
            seed=self.args.seed,
        )
        # Under data parallelism the policy's forward went through the wrapper, whose gradient
        # hooks wait for the sum of both terms; this one must not start them a second time.
        term = rehearse(
            self.accelerator.unwrap_model(model),
            share,
            self.divergence,
            temperature=self.temperature,
            pad_id=self.pad_id,
        )
        self._log_rehearsal(torch.stack([term.loss.detach(), term.log_ratio]), share, place)
        return term.loss

    def _log_rehearsal(self, sums: Tensor, share: Share, place: MicroStep) -> None:
        """Hand a finished step's numbers to TRL, which averages them until it logs."""
        so_far = self._step_sums.to(sums.device) if place.micro else torch.zeros_like(sums)
        self._step_sums = so_far + sums
        if place.micro < place.micros - 1:
            return
        means = self.accelerator.reduce(self._step_sums, reduction="mean").tolist()
        for name, value in zip(METRICS, (*means, float(share.tokens)), strict=True):
            self._metrics["train"][name].append(value)
