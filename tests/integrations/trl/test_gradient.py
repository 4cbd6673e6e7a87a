"""The gradient that an optimizer step takes is that of the stated loss."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dph.presampling.pool import load_pool
from dph.training.order import rehearsal_of_step
from integrations.trl.by_hand import TEXTBOOK, Step, gradient_by_hand, record, relative_error
from integrations.trl.small import TEMPERATURE, make_config, make_trainer

TESTS = Path(__file__).parents[2]
EXACT = 1e-6  # a float32 forward against float64


def error_of(step, directory, *, divergence="forward_kl", batches=None, eta=0.5):
    stored = rehearsal_of_step(load_pool(directory / "pool").rehearsal, 7, step.number + 1, seed=42)
    expected = gradient_by_hand(
        step.weights,
        batches or step.batches,
        stored,
        divergence=divergence,
        eta=eta,
        temperature=TEMPERATURE,
    )
    return relative_error(step.gradient, expected)


def as_step(values):
    return Step(**values)


def environment():
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("divergence", TEXTBOOK)
@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_the_gradient_is_that_of_the_loss_by_hand(directory, divergence, accumulation):
    args = make_config(
        directory,
        divergence=divergence,
        per_device_train_batch_size=16 // accumulation,
        gradient_accumulation_steps=accumulation,
    )
    steps = record(make_trainer(args))
    assert [step.number for step in steps] == [0, 1, 2]
    errors = [error_of(step, directory, divergence=divergence) for step in steps]
    assert max(errors) < EXACT
    # And the term is there to be seen: without it the last gradient would be another one.
    assert error_of(steps[-1], directory, divergence=divergence, eta=0.0) > 1e-2


def test_recomputed_activations_change_nothing(directory):
    args = make_config(directory, activation_checkpointing=True)
    errors = [error_of(step, directory) for step in record(make_trainer(args))]
    assert max(errors) < EXACT


@pytest.mark.parametrize("accumulation", [1, 2])
def test_two_processes_take_the_gradient_of_all_their_rows(directory, accumulation):
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", str(Path(__file__).with_name("ddp_run.py"))]
    done = subprocess.run(
        [*command, str(directory), str(accumulation)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [torch.load(directory / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]
    errors = []
    for first, second in zip(*ranks, strict=True):
        step, other = as_step(first), as_step(second)
        assert all(torch.equal(step.gradient[n], other.gradient[n]) for n in step.gradient)
        errors.append(error_of(step, directory, batches=step.batches + other.batches))
    assert len(errors) == 3
    assert max(errors) < EXACT
