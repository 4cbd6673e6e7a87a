"""The peer: TRL's GRPOTrainer on the same world, timed from inside its own training loop."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from lab.benchmarks.speed.runs import Run
from lab.benchmarks.speed.shapes import FULL_STEP
from lab.benchmarks.speed.timing import StepTime, clock, synchronize
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts, rewards

PEER = "TRL GRPOTrainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStep:
    """What the first optimizer step of the peer was made of.

    ``gradients`` are those that its optimizer got, after clipping.
    """

    weights: dict[str, torch.Tensor]
    micro_batches: tuple[dict[str, torch.Tensor], ...]
    gradients: list[torch.Tensor]


@dataclass(kw_only=True)
class Steps:
    """Times of the peer's steps but the first, a warm-up; lengths of all completions."""

    times: list[StepTime] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


class TimedTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer that notes how long sampling, grading and scoring took, and nothing else."""

    generate_seconds = 0.0

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        synchronize()
        started = clock()
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        synchronize()
        self.generate_seconds += clock() - started
        return output


class Watch(TrainerCallback):  # type: ignore[misc]
    """Times the peer's steps and lets the other side have its turn between two of them."""

    def __init__(
        self,
        trainer: TimedTrainer,
        turn: Callable[[int], None],
        on_first: Callable[[FirstStep], None] | None,
    ) -> None:
        self.trainer, self.turn, self.on_first = trainer, turn, on_first
        self.steps = Steps()
        self.mark = 0.0
        self.weights: dict[str, torch.Tensor] = {}

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Keep the weights of the first step."""
        del args, control, kwargs
        if state.global_step == 0:
            if self.on_first:
                named = self.trainer.model.named_parameters()
                self.weights = {name: p.detach().clone() for name, p in named}
            self.mark = clock()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Show the gradient of the first step."""
        del args, control, kwargs
        if state.global_step == 0 and self.on_first:
            self.on_first(
                FirstStep(
                    weights=self.weights,
                    micro_batches=tuple(self.trainer._buffered_inputs),
                    gradients=[p.grad.detach().clone() for p in self.trainer.model.parameters()],
                )
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the time of the step; the first is a warm-up."""
        del args, control, kwargs
        synchronize()
        spent = clock() - self.mark
        if state.global_step > 1:
            update = spent - self.trainer.generate_seconds
            self.steps.times.append(StepTime(step=spent, update=update))
        masks = [batch["completion_mask"] for batch in self.trainer._buffered_inputs]
        self.steps.lengths += [int(n) for mask in masks for n in mask.sum(-1)]
        self.turn(state.global_step)
        self.trainer.generate_seconds = 0.0
        self.mark = clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """What may differ between two runs of the peer."""

    steps: int
    """After the warm-up step."""
    beta: float = 0.0
    micro_rows: int = 16
    checkpointing: bool = False
    """On by default in TRL; without it the peer is faster."""


def make_trainer(
    world: World, model: PreTrainedModel, scratch: Path, settings: PeerSettings
) -> TimedTrainer:
    """The peer's trainer, with nothing logged and nothing saved."""
    prompts = make_prompts(world, 4 * world.shape.prompts)
    trainer = TimedTrainer(
        model=model,
        reward_funcs=rewards,
        args=_config(world, scratch, settings),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=build_tokenizer(world.size),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def run_trl(
    trainer: TimedTrainer,
    *,
    turn: Callable[[int], None] = lambda _: None,
    on_first: Callable[[FirstStep], None] | None = None,
) -> Steps:
    """Train to the end.

    ``turn`` is called after every step with the number of steps done; ``on_first`` before that,
    after the first step, with what it was made of.
    """
    watch = Watch(trainer, turn, on_first)
    trainer.add_callback(watch)
    trainer.train()
    return watch.steps


def prepare(side: str, case: str, run: Run) -> Callable[[], object]:
    """For a measurement of memory: two steps, the second one beside the optimizer's state."""
    world = run.world(FULL_STEP[case])
    settings = PeerSettings(steps=1, checkpointing=side == "trl_checkpointed")
    scratch = Path(tempfile.mkdtemp(prefix="dph-bench-"))
    trainer = make_trainer(world, build_model(world), scratch, settings)
    return lambda: trainer.train()


def _config(world: World, scratch: Path, settings: PeerSettings) -> GRPOConfig:
    """One optimizer step a rollout, in micro-batches of ``micro_rows`` rows."""
    shape, cuda = world.shape, world.device == "cuda"
    micro = min(settings.micro_rows, shape.rows)
    return GRPOConfig(
        output_dir=str(scratch),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=shape.rows // micro,
        num_generations=shape.samples,
        max_completion_length=shape.completion,
        max_steps=settings.steps + 1,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        beta=settings.beta,
        temperature=1.0,
        loss_type="dapo",
        bf16=world.dtype == "bfloat16",
        use_cpu=not cuda,
        gradient_checkpointing=settings.checkpointing,
        dataloader_pin_memory=cuda,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
