"""What each release of transformers calls the parts that this package reads."""

from inspect import Parameter, Signature

import pytest
import torch
import transformers as tf
from packaging.version import Version
from torch.utils.checkpoint import checkpoint

from dph.errors import ModelError
from dph.model.releases import (
    _attend,
    attending,
    cache_argument,
    causal_classes,
    checkpoint_contexts,
    keeps_state,
)
from tiny_models import FAMILIES, build_model

CACHE_SINCE = {"5.5": "past_key_values", "5.24": "cache"}
INSTALLED = Version(tf.__version__)


@pytest.mark.parametrize("family", FAMILIES)
def test_this_release_calls_the_cache_as_its_row_says(family):
    named = [name for since, name in CACHE_SINCE.items() if Version(since) <= INSTALLED]
    assert cache_argument(build_model(family)) == named[-1]


def taking(*names):
    """A class whose forward takes these arguments."""

    def forward(*_given): ...

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY) for name in ("input_ids", *names)]
    forward.__signature__ = Signature(parameters)
    return type("Model", (), {"forward": staticmethod(forward)})


def test_the_newer_of_the_known_names_of_a_cache_counts_and_a_state_is_known():
    for names, found in (
        (["past_key_values"], "past_key_values"),
        (["cache"], "cache"),
        (["past_key_values", "cache"], "cache"),
        (["memory"], None),
    ):
        assert cache_argument(taking(*names)()) == found
    kept = {"state": True, "cache_params": True, "cache": False, "memory": False}
    assert {n: keeps_state(tf.LlamaConfig(), [taking(n)]) for n in kept} == kept
    # By the layers of the cache too.
    assert keeps_state(tf.MambaConfig(num_hidden_layers=2), [tf.LlamaForCausalLM])
    assert causal_classes(tf.LlamaConfig()) == (tf.LlamaForCausalLM,)
    assert causal_classes(tf.ViTConfig()) == ()


IDS = torch.tensor([[3, 4, 5]])


def counting():
    """An attention function that notes who called it and gives zeros."""
    seen = []

    def attend(module, query, key, _value, **options):
        seen.append((module.layer_idx, query.shape, key.shape, sorted(options)))
        return torch.zeros_like(query).transpose(1, 2)

    return attend, seen


def test_every_layer_calls_the_function_while_it_lasts_and_all_is_restored_after_an_error(
    make_model,
):
    model = make_model("llama_gqa")
    before, expected = model.config._attn_implementation, model(input_ids=IDS).logits
    (attend, seen), (inner, seen_inside) = counting(), counting()
    with attending(model, attend):
        with attending(model, inner):
            model(input_ids=IDS)
        model(input_ids=IDS)
    assert [layer for layer, *_ in seen] == [layer for layer, *_ in seen_inside] == [0, 1]
    assert seen[0][1:3] == ((1, 4, 3, 8), (1, 2, 3, 8))
    assert "scaling" in seen[0][3]

    def broken(*_, **__):
        raise KeyError("no")

    with pytest.raises(KeyError), attending(model, broken):
        model(input_ids=IDS)
    assert model.config._attn_implementation == before
    assert model(input_ids=IDS).logits.equal(expected)
    assert len(seen) == 2


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
    with pytest.raises(ModelError, match="outside the forward"):
        _attend(torch.nn.Identity(), *[torch.zeros(1, 1, 1, 1)] * 3, None)
