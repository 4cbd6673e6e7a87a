"""Kernels of Liger in a model, with a stand-in for the package: its real ones need a GPU."""

import logging
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
import torch
from transformers.models.llama import modeling_llama

from dph._base.provenance import install_command
from dph.errors import SettingsError
from dph.model import loading
from dph.model.loading import computed_by, load_model


class OtherNorm(torch.nn.Module):
    """Stands for a class of Liger's."""


def turned(tensor, *_):
    """Stands for Liger's rotary embedding."""
    return f"Liger turned {tensor.name}"


@pytest.fixture
def liger(monkeypatch):
    """The keywords of every call of Liger, which replaces what it replaces in transformers."""
    calls = []

    def apply(model, **keywords):
        calls.append(keywords)
        modeling_llama.apply_rotary_pos_emb = turned
        modeling_llama.LlamaRMSNorm = OtherNorm
        model.model.norm.forward = torch.zeros_like

    patches = SimpleNamespace(
        MODEL_TYPE_TO_APPLY_LIGER_FN={"llama": apply}, _apply_liger_kernel_to_instance=apply
    )
    package = ModuleType("liger_kernel")
    package.__spec__ = ModuleSpec("liger_kernel", None)
    within = ModuleType("liger_kernel.transformers")
    within.monkey_patch = patches
    monkeypatch.setitem(sys.modules, "liger_kernel", package)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", within)
    monkeypatch.setattr(loading, "version", lambda _: "0.8.5")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("apply_rotary_pos_emb", "LlamaRMSNorm"):  # put back afterwards
        monkeypatch.setattr(modeling_llama, name, getattr(modeling_llama, name))
    loading._say_once.cache_clear()
    return calls


@pytest.fixture
def saved(make_model, tmp_path):
    make_model().save_pretrained(tmp_path)
    return tmp_path


def test_a_model_has_them_and_of_the_process_only_rotary_embeddings_on_cuda(liger, saved):
    plain, norm = modeling_llama.apply_rotary_pos_emb, modeling_llama.LlamaRMSNorm
    load_model(saved, device="cpu")
    assert liger == []  # it was not asked for
    for _ in range(2):  # a policy and its initial policy
        model = load_model(saved, device="cpu", kernels="liger")
        assert model.model.norm.forward is torch.zeros_like
        assert modeling_llama.LlamaRMSNorm is norm
        rotary = modeling_llama.apply_rotary_pos_emb
        assert rotary(SimpleNamespace(is_cuda=True, name="a query")) == "Liger turned a query"
        tensors = torch.randn(4, 1, 2, 3, 8)
        for ours, theirs in zip(rotary(*tensors), plain(*tensors), strict=True):
            assert torch.equal(ours, theirs)
    taken = ["rope", "rms_norm", "swiglu"]
    left = ["geglu", "cross_entropy", "fused_linear_cross_entropy"]
    assert liger == [dict.fromkeys(taken, True) | dict.fromkeys(left, False)] * 2


def test_a_gate_that_is_no_silu_stays_torchs(liger, make_model, tmp_path):
    make_model(hidden_act="relu").save_pretrained(tmp_path)
    load_model(tmp_path, device="cpu", kernels="liger")
    assert (liger[0]["swiglu"], liger[0]["geglu"]) == (False, False)


def test_a_kind_of_model_that_liger_does_not_know_is_told(liger, make_model, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    make_model("gpt2").save_pretrained(tmp_path)
    load_model(tmp_path, device="cpu", kernels="liger")
    assert liger == []
    assert "Liger 0.8.5 has no kernels for gpt2: torch's are used" in caplog.text


@pytest.mark.usefixtures("liger")
def test_they_need_their_package_and_a_gpu_and_a_result_says_that_they_computed_it(
    monkeypatch, saved
):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    assert computed_by("cpu", "liger") == computed_by("cpu")
    assert computed_by("cuda", "liger") == f"{computed_by('cuda')}, Liger 0.8.5"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match=r'is "liger", but there is no CUDA device'):
        load_model(saved, kernels="liger")
    monkeypatch.setattr("dph.recipe.tables.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=re.escape(install_command("gpu"))):
        load_model(saved, kernels="liger")
