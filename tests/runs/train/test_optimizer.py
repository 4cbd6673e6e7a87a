import pytest
import torch

from counting_device import CountingDevice
from dph.recipe import TrainingSettings
from dph.runs.train.optimizer import load_optimizer, make_optimizer, make_schedule, save_optimizer


def rates(train, model, *, done=0, steps=6):
    optimizer = make_optimizer(model, train)
    schedule = make_schedule(optimizer, train, done=done)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_warm_up_rises_in_equal_steps_and_a_restored_schedule_goes_on_where_it_was(make_model):
    train = TrainingSettings(learning_rate=1.0, warmup_steps=3)
    assert rates(train, make_model()) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])
    assert rates(train, make_model(), done=2, steps=3) == pytest.approx([0.75, 1.0, 1.0])
    assert rates(TrainingSettings(learning_rate=1.0), make_model(), steps=2) == [1.0, 1.0]


def test_vectors_are_not_decayed(make_model):
    model = make_model()
    matrices, vectors = make_optimizer(model, TrainingSettings(weight_decay=0.1)).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() > 1 for p in matrices["params"])
    total = len(matrices["params"]) + len(vectors["params"])
    assert total == len(list(model.parameters()))


def gradients(model, step):
    """The same for every model of one shape."""
    torch.manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def learnt(model, optimizer, steps):
    for step in steps:
        gradients(model, step)
        optimizer.step()
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def plain_adamw(model, train):
    """The loop over parameters, which is torch's choice on a CPU."""
    optimizer = make_optimizer(model, train)
    for group in optimizer.param_groups:
        group["fused"] = None
    return optimizer


TRAIN = TrainingSettings(learning_rate=1e-3, weight_decay=0.1)


def test_forty_steps_of_the_fused_kernel_are_those_of_the_loop_up_to_rounding(make_model):
    models = make_model(), make_model()
    optimizer = make_optimizer(models[0], TRAIN)
    assert all(group["fused"] for group in optimizer.param_groups)
    fused = learnt(models[0], optimizer, range(40))
    loop = learnt(models[1], plain_adamw(models[1], TRAIN), range(40))
    for name, found in fused.items():
        # Every step rounds the weight once on each side.
        atol = 40 * float(loop[name].abs().max()) * torch.finfo(torch.float32).eps
        torch.testing.assert_close(found, loop[name], rtol=0, atol=atol)


@pytest.mark.parametrize("make", [make_optimizer, plain_adamw], ids=["fused", "loop"])
def test_a_checkpoint_goes_on_with_the_kernel_that_made_it(make_model, tmp_path, make):
    whole, half = make_model(), make_model()
    expected = learnt(whole, make(whole, TRAIN), range(6))
    before = make(half, TRAIN)
    learnt(half, before, range(3))
    save_optimizer(before, tmp_path)
    after = make_optimizer(half, TRAIN)
    load_optimizer(tmp_path, after)
    save_optimizer(after, tmp_path)  # twice, for what is saved must say so again
    load_optimizer(tmp_path, after)
    found = learnt(half, after, range(3, 6))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def adapted(make_model):
    """A model of which one parameter is frozen, as most are under an adapter."""
    model = make_model()
    next(model.parameters()).requires_grad_(False)
    return model


def test_an_adapter_on_a_cpu_keeps_the_loop(make_model):
    optimizer = make_optimizer(adapted(make_model), TRAIN)
    assert not any(group["fused"] for group in optimizer.param_groups)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "adapter"])
def test_a_step_on_a_gpu_is_a_few_launches_and_no_wait(make_model, whole):
    with CountingDevice() as device:
        model = device.move(make_model() if whole else adapted(make_model))
        optimizer = make_optimizer(model, TRAIN)
        learnt(model, optimizer, range(1))  # makes the states
        gradients(model, 1)
        with device.counting("step") as counts:
            optimizer.step()
    # Matrices and vectors: the numbers of steps, and everything else.
    assert counts.launches == 4
    assert counts.waits == 0


@pytest.mark.parametrize("fused", [True, None], ids=["fused", "lists"])
def test_a_checkpoint_of_a_gpu_goes_on_with_the_kernel_that_made_it(make_model, tmp_path, fused):
    def made(model):
        optimizer = make_optimizer(device.move(model), TRAIN)
        for group in optimizer.param_groups:
            group["fused"] = fused
        return optimizer

    with CountingDevice() as device:
        whole, half = make_model(), make_model()
        expected = learnt(whole, made(whole), range(6))
        before = made(half)
        learnt(half, before, range(3))
        save_optimizer(before, tmp_path)
        after = make_optimizer(half, TRAIN)
        load_optimizer(tmp_path, after)
        assert all(group["fused"] is fused for group in after.param_groups)
        found = learnt(half, after, range(3, 6))
        for name in expected:
            assert device.numbers(found[name]).equal(device.numbers(expected[name]))
