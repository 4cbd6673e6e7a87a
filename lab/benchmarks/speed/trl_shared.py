"""TRL's own update, with the prompts of a group shared (``DPHTrainer``) and without."""

import tempfile
from typing import Any

import torch
from datasets import Dataset

from dph.engines.trl import DPHConfig, DPHTrainer
from lab.benchmarks.speed.full_step import GradientsDifferError
from lab.benchmarks.speed.peer_trl import PEER
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import AT_ONCE, TEXT_TO_SQL
from lab.benchmarks.speed.timing import interleaved, relative_error
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts, rewards


def measure(case: str, run: Run) -> list[Row]:
    """The update at one number of rows a micro-batch: forward, backward and optimizer."""
    world = run.world(TEXT_TO_SQL)
    at_once = min(AT_ONCE[case], world.shape.rows)
    with tempfile.TemporaryDirectory(prefix="dph-bench-") as scratch:
        trainer = _trainer(world, scratch, at_once)
    batches = _batches(world, at_once)
    gradients = []
    for shared in (True, False):
        _backward(trainer, batches, shared=shared)
        gradients.append([p.grad.clone() for p in trainer.model.parameters()])
    error = relative_error(*gradients)
    if not error <= run.gradient_tolerance:
        raise GradientsDifferError(f"on the same rows the gradients differ by {error:.2g}")

    def update(*, shared: bool) -> None:
        _backward(trainer, batches, shared=shared)
        trainer.optimizer.step()

    times = interleaved(
        {"ours": lambda: update(shared=True), "peer": lambda: update(shared=False)},
        repeats=run.repeats,
    )
    return [
        make_row(
            "trl_shared",
            case,
            run,
            shape=str(world.shape),
            ours=times["ours"],
            peer=PEER,
            peer_timing=times["peer"],
            at_once=at_once,
            gradient_error=error,
        )
    ]


def _trainer(world: World, scratch: str, at_once: int) -> DPHTrainer:
    args = DPHConfig(
        output_dir=scratch,
        eta=0.0,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=world.shape.rows // at_once,
        num_generations=world.shape.samples,
        max_completion_length=world.shape.completion,
        learning_rate=1e-6,
        bf16=world.dtype == "bfloat16",
        use_cpu=world.device != "cuda",
        gradient_checkpointing=False,
        report_to="none",
    )
    trainer = DPHTrainer(
        build_model(world),
        rewards,
        args,
        shared_prompts=True,
        train_dataset=Dataset.from_dict({"prompt": make_prompts(world, world.shape.prompts)}),
        processing_class=build_tokenizer(world.size),
    )
    trainer.model.train()
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    return trainer


def _batches(world: World, at_once: int) -> list[dict[str, Any]]:
    """Micro-batches as TRL makes them of a rollout; their words are drawn, not sampled."""
    shape, tokenizer = world.shape, build_tokenizer(world.size)
    prompts = torch.tensor(tokenizer(make_prompts(world, shape.prompts))["input_ids"])
    drawn = torch.Generator().manual_seed(0)
    words = (shape.rows, shape.completion)
    tables = {
        "prompt_ids": prompts.repeat_interleave(shape.samples, dim=0),
        "completion_ids": torch.randint(2, world.size.vocabulary, words, generator=drawn),
        "advantages": torch.randn(shape.rows, generator=drawn),
    }
    masks = {f"{n}_mask": torch.ones_like(tables[f"{n}_ids"]) for n in ("prompt", "completion")}
    rows = {name: table.to(world.device).split(at_once) for name, table in (tables | masks).items()}
    tokens = torch.tensor(float(shape.rows * shape.completion), device=world.device)
    return [
        {"num_items_in_batch": tokens, **dict(zip(rows, part, strict=True))}
        for part in zip(*rows.values(), strict=True)
    ]


def _backward(trainer: DPHTrainer, batches: list[dict[str, Any]], *, shared: bool) -> None:
    trainer.shared_prompts = shared
    trainer.model.zero_grad()
    for batch in batches:
        trainer.accelerator.backward(trainer.compute_loss(trainer.model, batch))
