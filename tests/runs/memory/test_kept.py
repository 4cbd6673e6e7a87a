"""Bytes that a layer keeps for the backward pass: the estimate against what autograd holds."""

import math

import pytest
import torch
import transformers as tf

from counting_device import CountingDevice
from dph.model.forward import sharing
from dph.model.forward.logprobs import completion_scores
from dph.model.loading import autocast
from dph.model.policies import load_policy
from dph.recipe import resolve_recipe
from dph.runs import memory

PROMPTS, SAMPLES, PROMPT, ANSWER = 2, 4, 96, 32


def recipe_of(directory, **model):
    return resolve_recipe(
        {
            "method": "grpo",
            "model": {"path": str(directory), "device": "cpu", "dtype": "bfloat16", **model},
            "data": {"train": "none.jsonl", "verifier": "exact"},
        }
    )


def save_model(directory, layers):
    config = tf.Qwen2Config(
        vocab_size=64,
        hidden_size=256,
        intermediate_size=1408,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=2,
    )
    tf.Qwen2ForCausalLM(config).save_pretrained(directory)


def kept(directory, recipe):
    """Bytes that the forward pass of a few groups keeps, without parameters, and its tokens."""
    policy = load_policy(directory, recipe.model, initial=directory, seed=0).train()
    numbers = torch.randint(3, 64, (PROMPTS * (1 + SAMPLES), PROMPT)).tolist()
    prompts = [numbers[group] for group in range(PROMPTS) for _ in range(SAMPLES)]
    completions = [ids[:ANSWER] for ids in numbers[PROMPTS:]]
    found = {}
    with CountingDevice(where=False) as device:
        device.move(policy)

        def storage(tensor):
            return getattr(tensor, "numbers", tensor).untyped_storage()

        def keep(tensor):
            held = storage(tensor)
            found[held.data_ptr()] = held.nbytes(), held
            return tensor

        own = {storage(parameter).data_ptr() for parameter in policy.parameters()}
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with autocast(policy, "bfloat16"), hooks:
            scores = completion_scores(
                policy, prompts, completions, temperature=1.0, pad_id=0, sharing="always"
            )
        return sum(size for at, (size, _) in found.items() if at not in own), scores.computed


LORA, DEAR = {"kind": "lora", "rank": 8}, pytest.mark.slow


@pytest.mark.parametrize(
    ("weights", "adapter", "checkpointing"),
    [
        ("float32", None, False),
        ("bfloat16", LORA, True),
        pytest.param("float32", LORA, False, marks=DEAR),
        pytest.param("bfloat16", None, True, marks=DEAR),
    ],
)
def test_a_layer_keeps_as_much_as_is_estimated(
    tmp_path, monkeypatch, weights, adapter, checkpointing
):
    monkeypatch.setattr(sharing, "packing_support", lambda *_: sharing.Support(None, math.inf))
    settings = {"weights": weights, "adapter": adapter, "gradient_checkpointing": checkpointing}
    sizes = []
    for layers in (1, 3):
        save_model(tmp_path / str(layers), layers)
        recipe = recipe_of(tmp_path / str(layers), **settings)
        size, tokens = kept(tmp_path / str(layers), recipe)
        sizes.append(size)
    shape = memory.read_shape(tmp_path / "3")
    if checkpointing:
        expected = tokens * shape.hidden * memory._width(recipe)
    else:
        expected = tokens * memory._layer(recipe, shape)
        expected += memory._narrowed(recipe, shape.matrices) / 3
    # Log-sums and the roots of norms are not counted, nor copies of an adapter's own weights.
    assert (sizes[1] - sizes[0]) / 2 == pytest.approx(expected, rel=0.02)
