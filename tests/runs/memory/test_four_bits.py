"""Weights of four bits in the estimate."""

from math import prod

import pytest

from dph.recipe import resolve_recipe
from dph.runs.memory import estimate, load_of, read_shape


def estimated(directory, weights):
    recipe = resolve_recipe(
        {
            "model": {"path": "m", "weights": weights, "adapter": {"kind": "lora"}},
            "data": {"train": "t.jsonl", "verifier": "number"},
        }
    )
    shape = read_shape(directory)
    return shape, estimate(recipe, shape, load_of(recipe, prompt=8, cuda=True), cuda=True)


def test_a_number_of_a_matrix_takes_4_127_bits_in_place_of_16(make_model, tmp_path):
    """As arXiv:2305.14314 counts them with its double quantization."""
    make_model().save_pretrained(tmp_path)
    (shape, narrow), (_, four) = (estimated(tmp_path, w) for w in ("bfloat16", "nf4"))
    matrices = sum(map(prod, shape.linear.values()))
    assert matrices < shape.parameters  # embeddings, norms and the head stay
    saved = narrow.weights - four.weights
    assert saved == pytest.approx(matrices * (16 - 4.127) / 8, rel=1e-4)
    unpacked = max(map(prod, shape.linear.values()))  # of one matrix at a time
    assert four.activations - narrow.activations == 2 * unpacked
