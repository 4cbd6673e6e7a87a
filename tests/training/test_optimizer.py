import pytest

from dph.settings import TrainingSettings
from dph.training.optimizer import make_optimizer, make_schedule


def rates(train, model, *, done=0, steps=6):
    optimizer = make_optimizer(model, train)
    schedule = make_schedule(optimizer, train, done=done)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_warm_up_rises_in_equal_steps_and_stays(make_model):
    train = TrainingSettings(learning_rate=1.0, warmup_steps=3)
    assert rates(train, make_model()) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


def test_without_warm_up_the_rate_is_full_at_once(make_model):
    assert rates(TrainingSettings(learning_rate=1.0), make_model(), steps=2) == [1.0, 1.0]


def test_a_restored_schedule_goes_on_where_it_was(make_model):
    train = TrainingSettings(learning_rate=1.0, warmup_steps=3)
    assert rates(train, make_model(), done=2, steps=3) == pytest.approx([0.75, 1.0, 1.0])


def test_vectors_are_not_decayed(make_model):
    model = make_model()
    matrices, vectors = make_optimizer(model, TrainingSettings(weight_decay=0.1)).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() > 1 for p in matrices["params"])
    total = len(matrices["params"]) + len(vectors["params"])
    assert total == len(list(model.parameters()))
