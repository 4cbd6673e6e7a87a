import pytest
import torch

from dph.model.forward.selected_logprobs import plain_head


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "gemma", "mixtral"])
def test_it_is_the_output_layer_of_a_model_that_leaves_its_logits_alone(make_model, family):
    model = make_model(family)
    assert plain_head(model) is model.get_output_embeddings()


@pytest.mark.parametrize("family", ["gemma2", "granite"])
def test_softcaps_and_logit_scales_are_noticed(make_model, family):
    assert plain_head(make_model(family)) is None


def test_heads_that_are_no_linear_layer_or_have_hooks_are_left_alone(make_model):
    model = make_model()
    assert plain_head(model) is not None
    handle = model.lm_head.register_forward_hook(lambda _m, _i, out: out)
    assert plain_head(model) is None
    handle.remove()
    model.lm_head = torch.nn.Sequential(model.lm_head)
    assert plain_head(model) is None
    model.get_output_embeddings = lambda: None
    assert plain_head(model) is None


def test_a_base_model_that_gives_no_hidden_states_of_the_heads_size_is_left_alone(make_model):
    model = make_model()
    model.model.norm.register_forward_hook(lambda _m, _i, out: out[..., :16])
    assert plain_head(model) is None
