import pytest
from torch import nn

from dph.models.evaluating import evaluating


def test_every_module_is_in_its_own_mode_again_afterwards():
    model = nn.Sequential(nn.Dropout(), nn.Linear(1, 1)).train()
    model[0].eval()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, False, True]


def test_also_after_an_error():
    model = nn.Linear(1, 1).train()
    with pytest.raises(KeyError), evaluating(model):
        raise KeyError
    assert model.training
