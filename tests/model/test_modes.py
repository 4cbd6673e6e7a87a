import pytest
import torch
from torch import nn

from dph.errors import SettingsError
from dph.model.loading import autocast, evaluating


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


def test_bfloat16_reaches_the_products_and_leaves_the_weights_alone(make_model):
    model = make_model()
    ids = torch.tensor([[3, 4, 5]])
    with autocast(model, "bfloat16"):
        assert model(input_ids=ids).logits.dtype is torch.bfloat16
    with autocast(model, "float32"):
        assert model(input_ids=ids).logits.dtype is torch.float32
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_another_dtype_is_refused_by_name(make_model):
    with pytest.raises(SettingsError, match=r'"float32" or "bfloat16", got \'fp8\''):
        autocast(make_model(), "fp8")
