"""Fingerprints of weights and tokenizers, weights between two models, and adapters."""

import json
from math import inf, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from adapted_models import KINDS, adapted_model, adapter, moved, plain_peft
from dph.errors import ModelError, SettingsError
from dph.model.loading import load_model
from dph.model.policies import (
    add_adapter,
    directory_fingerprint,
    has_adapter,
    interpolated_weights,
    read_adapter,
    save_policy,
    sharing,
    tokenizer_fingerprint,
    weight_fingerprint,
)
from tiny_models import build_model

# PEFT's wrapper, which we do not use, asks transformers by an older name.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
IDS = torch.arange(3, 12)[None]
FAMILIES = ("qwen2", "llama", "gpt2", "gemma2")


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(ids).logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["kaiming", "gaussian", "orthogonal"])
def test_a_new_adapter_leaves_the_model_as_it_was(kind, init):
    model = build_model()
    before = logits(model)
    add_adapter(model, adapter(kind, init=init), base="base", seed=0)
    # Two orthogonal matrices multiply to 0 only up to rounding.
    within = 1e-5 * float(before.abs().max()) if init == "orthogonal" else 0
    assert float((logits(model) - before).abs().max()) <= within


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_on_shared_tensors_leaves_the_initial_policy_to_the_bit(family, kind):
    initial, base = build_model(family), build_model(family)
    policy = sharing(initial)
    add_adapter(policy, adapter(kind), base="base", seed=0)
    assert torch.equal(logits(moved(policy)), logits(adapted_model(family, kind)))
    assert torch.equal(logits(initial), logits(base))
    assert weight_fingerprint(initial) == weight_fingerprint(base)
    assert not any(parameter.requires_grad for parameter in initial.parameters())
    assert not has_adapter(initial)


def test_models_that_share_have_no_tensor_of_their_own():
    model = build_model()
    held = {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    other = sharing(model)
    assert {t.data_ptr() for t in (*other.parameters(), *other.buffers())} == held
    assert other.config is not model.config  # each attends by its own


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_saved_as_peft_reads_it_and_read_again_to_the_bit(tmp_path, kind):
    model = adapted_model(kind=kind)
    save_policy(model, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"adapter_config.json", "adapter_model.safetensors", "adapter_base.json"}
    again = build_model("qwen2")
    read_adapter(again, tmp_path, base="base")
    assert torch.equal(logits(again), logits(model))
    assert weight_fingerprint(again) == weight_fingerprint(model)
    with torch.no_grad():
        theirs = plain_peft(tmp_path)(IDS).logits
    assert torch.equal(theirs, logits(model))


def test_random_numbers_are_a_function_of_the_seed_alone():
    models = []
    for seed, disturbed in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(disturbed)
        model = build_model(seed=0)
        torch.manual_seed(disturbed)
        add_adapter(model, adapter(), base="base", seed=seed)
        models.append(weight_fingerprint(model))
        after = torch.rand(1)
        torch.manual_seed(disturbed)
        assert torch.equal(after, torch.rand(1))  # nobody else's numbers are moved
    assert models[0] == models[1] != models[2]


def test_the_strength_of_an_adapter_counts_in_its_fingerprints(tmp_path):
    one, two = adapted_model(), adapted_model(alpha=4.0)
    assert weight_fingerprint(one) != weight_fingerprint(two)
    for name, model in (("one", one), ("two", two)):
        (tmp_path / name).mkdir()
        save_policy(model, tmp_path / name)
    assert directory_fingerprint(tmp_path / "one") != directory_fingerprint(tmp_path / "two")


def test_a_target_that_is_not_there_another_base_and_damage_are_told(tmp_path):
    with pytest.raises(ModelError, match=r"no linear layer 'q'; it has .*q_proj") as caught:
        adapted_model(targets=["q"])
    assert "lm_head" not in str(caught.value)
    with pytest.raises(ModelError, match="'lm_head' is the output layer"):
        adapted_model("llama", targets=["q_proj", "lm_head"])

    def require_refused(base, message):
        with pytest.raises(ModelError, match=message):
            read_adapter(build_model("qwen2"), tmp_path, base=base)

    save_policy(adapted_model(), tmp_path)
    require_refused("other", "trained on different weights")
    weights = tmp_path / "adapter_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    require_refused("base", "is damaged")
    (tmp_path / "adapter_base.json").write_text(json.dumps({}))
    require_refused("base", "is damaged")


def test_an_adapter_of_peft_belongs_to_the_directory_that_it_names_or_to_any(tmp_path, caplog):
    model = adapted_model()
    save_policy(model, tmp_path)
    (tmp_path / "adapter_base.json").unlink()  # PEFT and TRL write none
    again = build_model("qwen2")
    read_adapter(again, tmp_path, base="base")
    assert torch.equal(logits(again), logits(model))
    assert "does not say which weights it was trained on" in caplog.text
    build_model("qwen2").save_pretrained(tmp_path / "initial")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(tmp_path / "initial")
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="trained on different weights"):
        read_adapter(build_model("qwen2"), tmp_path, base="other")
    read_adapter(build_model("qwen2"), tmp_path, base=directory_fingerprint(tmp_path / "initial"))


def test_bfloat16_weights_stay_and_their_adapter_is_float32():
    model = build_model("qwen2").bfloat16()
    add_adapter(model, adapter("dora"), base="base", seed=0)
    kinds = {(p.requires_grad, p.dtype) for p in moved(model).parameters()}
    assert kinds == {(False, torch.bfloat16), (True, torch.float32)}


@pytest.mark.parametrize("family", ["llama_gqa", "qwen2", "gpt2"])
def test_weights_keep_their_fingerprint_through_saving_and_loading(make_model, tmp_path, family):
    model = make_model(family)
    model.save_pretrained(tmp_path)
    assert weight_fingerprint(load_model(tmp_path, device="cpu")) == weight_fingerprint(model)


def test_every_bit_every_tie_and_the_dtype_count_and_the_layout_does_not(make_model):
    model = make_model()
    before = weight_fingerprint(model)
    bits = model.model.norm.weight.data.view(torch.int32)
    bits[0] ^= 1
    assert weight_fingerprint(model) != before
    bits[0] ^= 1
    # The same matrix stored column by column is the same matrix.
    weight = model.lm_head.weight
    weight.data = weight.data.T.contiguous().T
    assert weight_fingerprint(model) == before
    tied, untied = (make_model(tie_word_embeddings=tied) for tied in (True, False))
    untied.load_state_dict(tied.state_dict())
    assert weight_fingerprint(tied) != weight_fingerprint(untied)
    assert weight_fingerprint(model.to(torch.bfloat16)) != before


def test_a_tokenizer_keeps_its_fingerprint_through_saving_loading_and_padding(tokenizer, tmp_path):
    before = tokenizer_fingerprint(tokenizer)
    tokenizer.padding_side = "left"
    tokenizer(["w3", "w4 w5"], padding=True, truncation=True, max_length=3)
    assert tokenizer_fingerprint(tokenizer) == before
    for folder in ("a", "b"):
        tokenizer.save_pretrained(tmp_path / folder)
        loaded = AutoTokenizer.from_pretrained(tmp_path / folder)
        assert tokenizer_fingerprint(loaded) == before


def test_vocabulary_special_tokens_and_template_change_the_fingerprint(tokenizer):
    seen = [tokenizer_fingerprint(tokenizer)]
    for name, value in (("chat_template", "{{ messages }}"), ("eos_token", "w9")):
        setattr(tokenizer, name, value)
        seen.append(tokenizer_fingerprint(tokenizer))
    tokenizer.add_tokens(["new"])
    assert len({*seen, tokenizer_fingerprint(tokenizer)}) == 4


def test_a_tokenizer_in_python_is_known_by_class_and_vocabulary(tokenizer):
    class Slow:
        is_fast, chat_template = False, None
        special_tokens_map = tokenizer.special_tokens_map

        def __init__(self, extra):
            self.get_vocab = lambda: {"a": 0} | extra

    first, second = tokenizer_fingerprint(Slow({})), tokenizer_fingerprint(Slow({"b": 1}))
    assert first != second
    assert first == tokenizer_fingerprint(Slow({}))


def pair(**changes):
    """Two small sets of weights; ``changes`` are of the second."""
    base = {"a": torch.tensor([1.0, -2.0]), "b": torch.tensor([[0.5]])}
    final = {"a": torch.tensor([3.0, -2.0]), "b": torch.tensor([[0.25]])}
    return base, {**final, **changes}


def test_a_weight_is_a_share_of_the_way_also_beyond_the_ends():
    base, final = pair()
    half = interpolated_weights(base, final, 0.5)
    assert (half["a"].tolist(), half["b"].tolist()) == ([2.0, -2.0], [[0.375]])
    for weight, first in ((0.25, 1.5), (1.5, 4.0), (-0.5, 0.0)):
        assert interpolated_weights(base, final, weight)["a"].tolist() == [first, -2.0]


def test_some_layers_are_interpolated_and_all_else_is_the_final_models():
    names = ("embed.weight", "layers.0.w", "layers.1.w", "layers.1.experts.0.w", "layers.2.w")
    base, final = ({name: torch.tensor([value]) for name in names} for value in (1.0, 3.0))
    found = interpolated_weights(base, final, 0.25, layers=range(1, 2))
    # 1 + 0.25 * (3 - 1) = 1.5 in layer 1, an expert of which has another number behind
    assert [float(found[name]) for name in names] == [3.0, 3.0, 1.5, 1.5, 3.0]
    whole = interpolated_weights(base, final, 0.25)
    assert interpolated_weights(base, final, 0.25, layers=range(3)) == whole | {
        "embed.weight": final["embed.weight"]
    }
    for layers in (range(1, 4), range(2, 2), range(-1, 1)):
        with pytest.raises(SettingsError, match=r"the layers 0-3 \(the end is not part"):
            interpolated_weights(base, final, 0.25, layers=layers)


FLOATS = st.floats(width=32, allow_nan=False)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=8))
def test_zero_and_one_give_the_two_models_to_the_bit(values):
    base, final = ({"w": torch.tensor([v[i] for v in values])} for i in (0, 1))
    for weight, end in ((0.0, base), (1.0, final)):
        found = interpolated_weights(base, final, weight)["w"]
        assert torch.equal(found.view(torch.int32), end["w"].view(torch.int32))


FINITE = st.floats(-1e6, 1e6, width=32)


@given(FINITE, FINITE, st.floats(0, 1))
def test_it_is_linear_to_a_few_roundings(start, end, weight):
    base, final = {"w": torch.tensor([start])}, {"w": torch.tensor([end])}
    exact = start + weight * (end - start)
    # Three roundings (change, product, sum), each of at most 2^-24 of what is rounded.
    bound = 3 * 2**-24 * (abs(start) + abs(end) + abs(end - start)) + 1e-37
    assert abs(float(interpolated_weights(base, final, weight)["w"]) - exact) <= bound


def test_a_half_precision_pair_is_given_in_single_precision_and_infinities_that_are_alike_stay():
    # Neighbours in bfloat16.
    base, final = ({"w": torch.tensor([x], dtype=torch.bfloat16)} for x in (1.0, 1.0078125))
    found = interpolated_weights(base, final, 0.5)["w"]
    assert (found.dtype, float(found)) == (torch.float32, 1.00390625)
    base, final = {"w": torch.tensor([-inf, 1.0])}, {"w": torch.tensor([-inf, 2.0])}
    assert interpolated_weights(base, final, 0.5)["w"].tolist() == [-inf, 1.5]
    for weight in (nan, inf):
        with pytest.raises(ValueError, match="must be finite"):
            interpolated_weights(*pair(), weight)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": torch.tensor([4])}, r"steps differs .* torch.int64"),
        ({"c": torch.zeros(1)}, r"1 are in only one of them.*c \(in the second\)"),
        ({"a": torch.zeros(3)}, r"the first is a: \(2,\) and \(3,\)"),
    ],
)
def test_weights_that_do_not_fit_each_other_are_named(changes, message):
    base, final = pair(steps=torch.tensor([3]))
    base["steps"] = torch.tensor([3])
    assert interpolated_weights(base, final, 0.5)["steps"].tolist() == [3]
    with pytest.raises(ModelError, match=message):
        interpolated_weights(base, final | changes, 0.5)


def test_tied_weights_stay_tied_and_another_tie_is_refused():
    shared = [torch.tensor([1.0]), torch.tensor([2.0])]
    base, final = ({"head": tensor, "embedding": tensor} for tensor in shared)
    found = interpolated_weights(base, final, 0.5)
    assert found["head"].tolist() == found["embedding"].tolist() == [1.5]
    final["head"] = torch.tensor([2.0])
    with pytest.raises(ModelError, match="ties embedding and head"):
        interpolated_weights(base, final, 0.5)
