import pytest
import torch

from dph.errors import SettingsError
from dph.models.autocast import autocast


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
