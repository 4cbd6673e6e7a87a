import pytest
import torch

from dph.errors import CheckpointError
from dph.recipe import TrainingSettings
from dph.runs.train.optimizer import load_optimizer, make_optimizer, save_optimizer

pytest.importorskip("torchao", reason="the extra low-memory is not installed")
SMALL = TrainingSettings(learning_rate=1e-5, betas=(0.9, 0.95))


def narrow_model(*, value=0.02):
    """One matrix whose states are kept in 8 bits and one vector whose are not."""
    model = torch.nn.Linear(64, 128)
    with torch.no_grad():
        model.weight.fill_(value)
        model.bias.fill_(value)
    return model.bfloat16()


def steps(model, optimizer, count):
    for _ in range(count):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()


def test_steps_far_below_the_spacing_of_bfloat16_move_weights_by_their_mean():
    model = narrow_model()
    before = model.weight.detach().float().mean()
    steps(model, make_optimizer(model, SMALL, seed=0), 20)
    moved = float(before - model.weight.detach().float().mean())
    # Each of 8192 weights falls by 20 steps of 1e-5 on average; one of them by whole 2^-13 at a
    # time, so that the mean's own deviation is below 2^-13 * sqrt(2) / sqrt(8192) = 1.9e-6.
    assert abs(moved - 2e-4) <= 4 * 1.9e-6 + 0.02 * 2e-4
    assert model.weight.dtype == torch.bfloat16
    assert len(model.weight.unique()) > 1


def test_rounding_is_a_function_of_seed_and_step_alone():
    found = []
    for seed, disturbed in ((0, 1), (0, 2), (1, 1)):
        model = narrow_model()
        torch.manual_seed(disturbed)
        steps(model, make_optimizer(model, SMALL, seed=seed), 3)
        after = torch.rand(1)
        torch.manual_seed(disturbed)
        assert torch.equal(after, torch.rand(1))  # nobody else's numbers are moved
        found.append(model.weight.detach().clone())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_a_run_goes_on_with_the_same_steps_to_the_bit_and_not_with_another_models_state(tmp_path):
    whole, half = narrow_model(), narrow_model()
    steps(whole, make_optimizer(whole, SMALL, seed=0), 6)
    first = make_optimizer(half, SMALL, seed=0)
    steps(half, first, 3)
    save_optimizer(first, tmp_path)
    again = make_optimizer(half, SMALL, seed=0)
    load_optimizer(tmp_path, again)
    steps(half, again, 3)
    assert torch.equal(whole.weight, half.weight)
    assert torch.equal(whole.bias, half.bias)
    model, other = narrow_model(), torch.nn.Linear(32, 256).bfloat16()
    optimizer = make_optimizer(model, SMALL, seed=0)
    steps(model, optimizer, 1)
    save_optimizer(optimizer, tmp_path)
    with pytest.raises(CheckpointError, match="belongs to another model"):
        load_optimizer(tmp_path, make_optimizer(other, SMALL, seed=0))
