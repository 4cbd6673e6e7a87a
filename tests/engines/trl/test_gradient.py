"""The gradient that an optimizer step takes is that of the stated loss."""

import json
from importlib.util import find_spec

import pytest
import torch

from dph.loss.objectives import kl_penalty
from engines.trl.by_hand import (
    TEXTBOOK,
    Step,
    entropy_gradient_by_hand,
    error_of,
    record,
    relative_error,
)
from engines.trl.processes import run_two_processes
from engines.trl.small import RECOMPUTE, TEMPERATURE, make_config, make_trainer
from tiny_models import VOCABULARY

EXACT = 1e-6  # a float32 forward against float64


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
    args = make_config(directory, **{RECOMPUTE: True})
    errors = [error_of(step, directory) for step in record(make_trainer(args))]
    assert max(errors) < EXACT


@pytest.mark.parametrize(("sharing", "exact"), [(False, EXACT), (True, 10 * EXACT)])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_two_processes_take_the_gradient_of_all_their_rows(directory, accumulation, sharing, exact):
    changes = json.dumps({"shared_prompts": sharing})
    ranks = run_two_processes("ddp_run.py", directory, accumulation, changes)
    errors = []
    for first, second in zip(*ranks, strict=True):
        step, other = Step(**first), Step(**second)
        assert all(torch.equal(step.gradient[n], other.gradient[n]) for n in step.gradient)
        errors.append(error_of(step, directory, batches=step.batches + other.batches))
    assert len(errors) == 3
    assert max(errors) < exact


def test_an_entropy_penalty_has_the_gradient_of_its_own_formula(directory):
    penalties = {"wide": {"kind": "entropy", "weight": 0.3}}
    args = make_config(directory, pool="", eta=None, objective={"penalties": penalties})
    for step in record(make_trainer(args)):
        with_it, without = (
            entropy_gradient_by_hand(
                step.weights, step.batches, weight=weight, temperature=TEMPERATURE
            )
            for weight in (0.3, 0.0)
        )
        assert relative_error(step.gradient, with_it) < EXACT
        assert relative_error(step.gradient, without) > 1e-2


@pytest.mark.parametrize("estimator", ["unbiased", "k3"])
def test_a_kl_penalty_has_trls_value_and_gradient_off_policy_too(directory, estimator):
    changes = {"loss_type": "bnpo", "use_bias_correction_kl": estimator == "unbiased"}
    trainer = make_trainer(make_config(directory, pool="", eta=None, method="grpo", **changes))
    trainer.beta, model = 1.0, trainer.model.eval()  # as an argument it would load a second model
    torch.manual_seed(0)
    prompts, answers = torch.randint(3, VOCABULARY, (4, 5)), torch.randint(3, VOCABULARY, (4, 6))
    mask = torch.ones_like(answers)
    mask[0, 3:] = 0
    ids = torch.cat([prompts, answers], dim=1)
    now = trainer._get_per_token_logps_and_entropies(model, ids, torch.ones_like(ids), 6)[0]
    old, reference = (now.detach() + torch.randn(4, 6) for _ in range(2))
    batch = {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": answers,
        "completion_mask": mask,
        "advantages": torch.zeros(4),  # nothing but the penalty is left of the loss
        "old_per_token_logps": old,
        "ref_per_token_logps": reference,
    }
    theirs = trainer._compute_loss(model, batch)
    values = kl_penalty(now, reference, old, estimator=estimator)
    ours = (values * mask).sum() / mask.sum()
    torch.testing.assert_close(ours, theirs, rtol=EXACT, atol=0)
    gradients = [
        dict(zip(names, torch.autograd.grad(loss, weights, retain_graph=True), strict=True))
        for names, weights in [zip(*model.named_parameters(), strict=True)]
        for loss in (ours, theirs)
    ]
    assert relative_error(*gradients) < EXACT


@pytest.mark.skipif(not find_spec("liger_kernel"), reason="liger-kernel is not installed")
@pytest.mark.filterwarnings("ignore")  # deprecations of TRL 1.16, and the compiler's in 1.12
def test_ligers_loss_takes_the_same_gradient(directory):
    # Its kernels need a GPU, its loss is torch.
    kernels = ("rope", "rms_norm", "swiglu", "cross_entropy", "fused_linear_cross_entropy")
    off = dict.fromkeys(kernels, False)
    args = make_config(directory, use_liger_kernel=True, liger_kernel_config=off)
    errors = [error_of(step, directory) for step in record(make_trainer(args))]
    assert max(errors) < EXACT
