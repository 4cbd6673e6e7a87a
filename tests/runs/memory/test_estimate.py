"""The arithmetic of the estimate; how near it is to what is held: lab/benchmarks/memory.py."""

from dataclasses import replace
from math import prod

import pytest

from dph.model.forward import logprobs, over_vocabulary
from dph.model.loading import load_model
from dph.model.policies import add_adapter
from dph.model.sampler.torch import rows_in_place, shared_forward, waves
from dph.recipe import resolve_recipe
from dph.recipe.tables import AdapterSettings
from dph.runs import memory
from dph.runs.memory import ModelShape, estimate, load_of, read_shape
from tiny_models import FAMILIES, build_model

ROWS = {"problems_per_step": 4, "samples_per_problem": 2, "minibatches": 1}


def recipe_of(directory, *, train=None, **model):
    return resolve_recipe(
        {
            "method": "grpo",
            "model": {"path": str(directory), "device": "cpu", **model},
            "data": {"train": "none.jsonl", "verifier": "exact"},
            "sampling": {"max_tokens": 10},
            "train": {**ROWS, **(train or {})},
        }
    )


def found(directory, **settings):
    recipe = recipe_of(directory, **settings)
    return estimate(recipe, read_shape(directory), load_of(recipe, prompt=20))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_models_sizes_are_those_of_its_files(tmp_path, family):
    model = build_model(family)
    model.save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert (shape.vocabulary, shape.hidden, shape.layers) == (48, 32, 2)
    assert shape.plain_head == (family != "gemma2")  # which caps its logits


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize("kind", ["lora", "dora"])
@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "v_proj"]])
def test_an_adapter_has_as_many_numbers_as_peft_makes(tmp_path, family, kind, targets):
    if family == "gpt2":
        targets = ["c_attn"] if targets != "all-linear" else targets
    model = build_model(family)
    model.save_pretrained(tmp_path)
    settings = AdapterSettings(kind=kind, rank=4, targets=targets)
    loaded = load_model(tmp_path, device="cpu")
    add_adapter(loaded, settings, base="base", seed=0)
    trained = sum(p.numel() for p in loaded.parameters() if p.requires_grad)
    assert read_shape(tmp_path).adapter_parameters(settings) == trained


def test_prompts_and_what_they_begin_with_count_once_where_they_are_shared():
    load = load_of(recipe_of("model"), prompt=20)
    assert load.computed == 4 * 20 + 8 * 10
    assert load.apart == 8 * 30
    assert load.cached == 4 * 20 + 8 * 9
    assert not load.several
    small = load_of(recipe_of("model", train={"microbatch_tokens": 100}), prompt=20)
    assert (small.computed, small.several) == (100, True)
    load = load_of(recipe_of("model"), prompt=20, common=15)
    assert load.computed == 15 + 4 * 5 + 8 * 10
    assert load.prefilled == 15 + 4 * 5
    assert (load.apart, load.cached) == (8 * 30, 4 * 20 + 8 * 9)


def test_weights_gradients_and_states_are_sixteen_six_and_few_bytes_a_number(tmp_path):
    model = build_model("llama")
    model.save_pretrained(tmp_path)
    count = sum(p.numel() for p in model.parameters())
    whole = found(tmp_path)
    assert (whole.weights, whole.gradients, whole.optimizer) == (4 * count, 4 * count, 8 * count)
    narrow = found(tmp_path, dtype="bfloat16", weights="bfloat16")
    assert narrow.weights + narrow.gradients == 4 * count
    assert narrow.optimizer == pytest.approx(2 * count, rel=0.02)
    settings = {"kind": "lora", "rank": 1}
    adapted = found(tmp_path, dtype="bfloat16", weights="bfloat16", adapter=settings)
    small = read_shape(tmp_path).adapter_parameters(AdapterSettings(**settings))
    assert adapted.weights == 2 * count + 4 * small
    assert adapted.gradients + adapted.optimizer == 12 * small


def test_a_step_makes_something_on_a_cpu_alone_of_an_adapter_or_of_eight_bits(tmp_path):
    build_model("llama").save_pretrained(tmp_path)
    narrow = {"dtype": "bfloat16", "weights": "bfloat16"}
    for settings, makes in (({}, False), ({"adapter": {"kind": "lora"}}, True), (narrow, True)):
        recipe, shape = recipe_of(tmp_path, **settings), read_shape(tmp_path)
        load = load_of(recipe, prompt=20)
        assert (estimate(recipe, shape, load).step > 0) == makes
        assert estimate(recipe, shape, load, cuda=True).step == 0


def test_sizes_of_blocks_are_those_that_are_computed():
    head = over_vocabulary
    assert memory._BLOCK == (head.CUDA_BLOCK, head.CUDA_TOKENS)
    assert memory._BLOCK_ON_CPU == (head.BLOCK, head.TOKENS)
    assert (memory._STATISTIC, memory._STATISTIC_ON_CPU) == (head.CUDA_TABLE, head.TABLE)
    assert memory._TABLES == 2 * over_vocabulary.TABLES
    assert memory._TABLE == logprobs._LOGITS_AT_ONCE
    assert memory._BYTES_PER_LOGIT == waves._BYTES_PER_LOGIT
    assert memory._OF_FREE == waves._SHARE
    assert memory._PREFILL == rows_in_place.PREFILL_TOKENS
    assert memory._PREFILL_ON_CPU == shared_forward.CPU_PREFILL_TOKENS


def _large(tmp_path, **changes):
    """A head of 100 million logits: 1,000 tokens of 100,000 words."""
    model = build_model("llama", vocab_size=100_000)
    model.save_pretrained(tmp_path)
    return recipe_of(tmp_path, dtype="bfloat16", **changes), read_shape(tmp_path)


def test_blocks_of_logits_are_wide_ones_on_a_gpu_and_narrow_ones_on_a_cpu(tmp_path):
    recipe, shape = _large(tmp_path)
    on_cpu, on_gpu = (memory._head(recipe, shape, 1000, cuda=cuda) for cuda in (False, True))
    # In float32 and in 16 bits; narrowed weights and a product of 32 numbers a word; and states.
    assert on_gpu == 1000 * 100_000 * 6 + 100_000 * 32 * (2 + 4) + 1000 * 32 * 6
    assert on_cpu == 1000 * 1048 * 6 + 1048 * 32 * (2 + 4) + 1000 * 32 * 6
    capped = replace(shape, plain_head=False)  # logits, softmax and gradient of the whole table
    assert memory._head(recipe, capped, 1000, cuda=True) == 3 * 4 * 10**8 + 100_000 * 32 * 2


def test_terms_over_the_vocabulary_hold_tables_of_their_own(tmp_path):
    recipe, shape = _large(tmp_path)
    penalty = {"objective": {"penalties": {"entropy": {"kind": "entropy", "weight": 0.1}}}}
    exact = resolve_recipe({**_plain(tmp_path), "method": "grpo", **penalty})
    exact = recipe.model_copy(update={"objective": exact.objective})
    for cuda, block in ((False, 2**24), (True, 2**26)):
        tables = 4 * 10 * block
        assert memory._head(exact, shape, 1000, cuda=cuda) == tables


def test_autocasts_copies_of_weights_are_there_while_answers_are_drawn(tmp_path):
    build_model("llama").save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    assert shape.matrices == 2 * (4 * 32 * 32 + 3 * 32 * 48)
    prefill = (4 * 20) * 2 * (3 * 48 + 4 * 32)  # of all prompts, more than the logits of a step
    assert found(tmp_path, dtype="bfloat16").logits == prefill + 2 * (shape.matrices + 48 * 32)


def test_an_initial_policy_beside_costs_its_weights_but_with_an_adapter_nothing(tmp_path):
    build_model("llama").save_pretrained(tmp_path)
    table = recipe_of(tmp_path)
    kl = table.model_copy(
        update={"objective": resolve_recipe({**_plain(tmp_path), "method": "rkl"}).objective}
    )
    shape, load = read_shape(tmp_path), load_of(kl, prompt=20)
    assert estimate(kl, shape, load).weights == 2 * estimate(table, shape, load).weights


def _plain(directory):
    return {"model": {"path": str(directory)}, "data": {"train": "none.jsonl", "verifier": "exact"}}


def test_eight_billion_numbers_fit_the_cards_that_they_should():
    """Of Llama 3 8B's sizes: whole on 80 GB with recomputed layers, an adapter on 24 GB."""
    sizes = {"q": (4096, 4096), "k": (4096, 1024), "v": (4096, 1024), "o": (4096, 4096)}
    sizes |= {"gate": (4096, 14336), "up": (4096, 14336), "down": (14336, 4096)}
    shape = ModelShape(
        parameters=8_030_261_248,
        vocabulary=128256,
        hidden=4096,
        layers=32,
        queries=4096,
        keys=1024,
        inner=14336,
        gated=True,
        linear={f"layers.{n}.{k}.weight": size for n in range(32) for k, size in sizes.items()},
        largest=128256 * 4096,
    )
    narrow = {"dtype": "bfloat16", "weights": "bfloat16", "gradient_checkpointing": True}
    whole = recipe_of("model", train={"microbatch_tokens": 8192}, **narrow)
    adapted = recipe_of(
        "model", train={"microbatch_tokens": 2048}, adapter={"kind": "lora"}, **narrow
    )
    for recipe, card in ((whole, 80e9), (adapted, 24e9)):
        load = load_of(recipe, prompt=1000)
        assert estimate(recipe, shape, load, cuda=True).peak < 0.95 * card


def estimated(directory, weights):
    recipe = resolve_recipe(
        {
            "model": {"path": "m", "weights": weights, "adapter": {"kind": "lora"}},
            "data": {"train": "t.jsonl", "verifier": "number"},
        }
    )
    shape = read_shape(directory)
    return shape, estimate(recipe, shape, load_of(recipe, prompt=8, cuda=True), cuda=True)


def test_a_number_of_a_matrix_takes_4_127_bits_in_place_of_16(tmp_path):
    """As arXiv:2305.14314 counts them with its double quantization."""
    build_model("llama").save_pretrained(tmp_path)
    (shape, narrow), (_, four) = (estimated(tmp_path, w) for w in ("bfloat16", "nf4"))
    matrices = sum(map(prod, shape.linear.values()))
    assert matrices < shape.parameters  # embeddings, norms and the head stay
    saved = narrow.weights - four.weights
    assert saved == pytest.approx(matrices * (16 - 4.127) / 8, rel=1e-4)
    unpacked = max(map(prod, shape.linear.values()))  # of one matrix at a time
    assert four.activations - narrow.activations == 2 * unpacked
