import pytest
import torch
from torch.utils.checkpoint import checkpoint

from dph.errors import ModelError
from dph.model.attention.releases import _attend, attending, checkpoint_contexts

IDS = torch.tensor([[3, 4, 5]])


def counting():
    """An attention function that notes who called it and gives zeros."""
    seen = []

    def attend(module, query, key, _value, **options):
        seen.append((module.layer_idx, query.shape, key.shape, sorted(options)))
        return torch.zeros_like(query).transpose(1, 2)

    return attend, seen


def test_every_layer_calls_the_function_while_it_lasts(make_model):
    model = make_model("llama_gqa")
    before = model.config._attn_implementation
    attend, seen = counting()
    with attending(model, attend):
        model(input_ids=IDS)
    assert [layer for layer, *_ in seen] == [0, 1]
    assert seen[0][1:3] == ((1, 4, 3, 8), (1, 2, 3, 8))
    assert "scaling" in seen[0][3]
    assert model.config._attn_implementation == before
    model(input_ids=IDS)
    assert len(seen) == 2


def test_all_is_as_it_was_after_an_error(make_model):
    model = make_model()
    before = model.config._attn_implementation
    expected = model(input_ids=IDS).logits

    def broken(*_, **__):
        raise KeyError("no")

    with pytest.raises(KeyError), attending(model, broken):
        model(input_ids=IDS)
    assert model.config._attn_implementation == before
    assert model(input_ids=IDS).logits.equal(expected)


def test_contexts_nest(make_model):
    model = make_model()
    outer, seen_outside = counting()
    inner, seen_inside = counting()
    with attending(model, outer):
        with attending(model, inner):
            model(input_ids=IDS)
        model(input_ids=IDS)
    assert len(seen_inside) == len(seen_outside) == 2


def test_outside_of_a_context_there_is_nothing_to_call():
    with pytest.raises(ModelError, match="outside the forward"):
        _attend(torch.nn.Identity(), *[torch.zeros(1, 1, 1, 1)] * 3, None)


def test_a_checkpointed_layer_is_computed_again_with_the_same_attention(make_model):
    model = make_model()
    attend, seen = counting()
    value = torch.ones(1, requires_grad=True)

    def layer(x):
        model(input_ids=IDS)
        return x * x

    with attending(model, attend):
        out = checkpoint(layer, value, use_reentrant=False, context_fn=checkpoint_contexts)
    assert len(seen) == 2
    out.backward()
    assert len(seen) == 4
    assert model.config._attn_implementation == "sdpa"


def test_without_a_context_checkpointing_is_as_usual(make_model):
    first, again = checkpoint_contexts()
    with first, again:
        assert make_model()(input_ids=IDS).logits.isfinite().all()
