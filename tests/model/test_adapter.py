import json

import pytest
import torch

from adapted_models import KINDS, adapted_model, adapter, moved, plain_peft
from dph.errors import ModelError
from dph.model.policies import (
    add_adapter,
    directory_fingerprint,
    has_adapter,
    merge_adapter,
    read_adapter,
    save_policy,
    weight_fingerprint,
    without_adapter,
)
from tiny_models import build_model

# PEFT's wrapper, which we do not use, asks transformers by an older name.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
IDS = torch.arange(3, 12)[None]
FAMILIES = ("qwen2", "llama", "gpt2", "gemma2")
INITS = ("kaiming", "gaussian", "orthogonal")


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(ids).logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", INITS)
def test_a_new_adapter_leaves_the_model_as_it_was(kind, init):
    model = build_model()
    before = logits(model)
    add_adapter(model, adapter(kind, init=init), base="base", seed=0)
    largest = float(before.abs().max())
    # Two orthogonal matrices multiply to 0 only up to rounding.
    assert float((logits(model) - before).abs().max()) <= (1e-5 * largest if init[0] == "o" else 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_with_the_adapter_off_it_is_the_initial_policy_to_the_bit(family, kind):
    initial = without_adapter(adapted_model(family, kind))
    base = build_model(family)
    assert torch.equal(logits(initial), logits(base))
    assert weight_fingerprint(initial) == weight_fingerprint(base)
    assert not any(parameter.requires_grad for parameter in initial.parameters())


def test_the_initial_policy_has_no_tensor_of_its_own():
    model = adapted_model()
    held = {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    initial = without_adapter(model)
    assert {t.data_ptr() for t in (*initial.parameters(), *initial.buffers())} <= held
    assert initial.config is not model.config  # each attends by its own


def test_a_model_without_an_adapter_is_its_own_initial_policy():
    model = build_model()
    assert without_adapter(model) is model
    assert not has_adapter(model)


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


def test_only_the_adapter_is_in_its_file(tmp_path):
    save_policy(adapted_model("qwen2", targets=["q_proj"]), tmp_path)
    saved = (tmp_path / "adapter_model.safetensors").stat().st_size
    numbers = 2 * (4 * 32 + 32 * 4)  # two layers, rank 4, 32 x 32
    assert numbers * 4 <= saved <= numbers * 4 + 2048


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_merged_it_is_a_plain_model_with_the_same_logits(family, kind):
    model = adapted_model(family, kind)
    before = logits(model)
    merge_adapter(model)
    assert model.state_dict().keys() == build_model(family).state_dict().keys()
    assert float((logits(model) - before).abs().max()) <= 1e-5 * float(before.abs().max())
    assert not has_adapter(model)


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


def test_a_target_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ModelError, match=r"no linear layer 'q'; it has .*q_proj") as caught:
        adapted_model(targets=["q"])
    assert "lm_head" not in str(caught.value)
    with pytest.raises(ModelError, match="'lm_head' is the output layer"):
        adapted_model("llama", targets=["q_proj", "lm_head"])


def test_another_base_and_damage_are_told(tmp_path):
    save_policy(adapted_model(), tmp_path)
    with pytest.raises(ModelError, match="trained on different weights"):
        read_adapter(build_model("qwen2"), tmp_path, base="other")
    weights = tmp_path / "adapter_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="is damaged"):
        read_adapter(build_model("qwen2"), tmp_path, base="base")
    (tmp_path / "adapter_base.json").write_text(json.dumps({}))
    with pytest.raises(ModelError, match="is damaged"):
        read_adapter(build_model("qwen2"), tmp_path, base="base")


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
