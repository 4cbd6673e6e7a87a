"""These tests need a vLLM that draws here; without it they are skipped (`make test-vllm`)."""

import importlib.util
from pathlib import Path

import pytest
import torch

from dph.errors import SettingsError
from dph.model.sampler.vllm import EngineOptions, VLLMSampler, require_vllm
from tiny_models import build_model, build_tokenizer

HERE = Path(__file__).parent


def lacking():
    """Why vLLM cannot draw here; nothing where it can."""
    if importlib.util.find_spec("vllm") is None:
        return "needs vLLM: make test-vllm"
    try:
        require_vllm()
    except SettingsError as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(items):
    """Warnings of vLLM and of what it imports are theirs."""
    why = lacking()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.skipif(bool(why), reason=why))


@pytest.fixture(scope="session")
def model():
    """A random Llama with heads as long as vLLM's kernels have them, and no flat distributions."""
    return build_model(
        "llama_gqa", hidden_size=128, intermediate_size=192, initializer_range=0.06
    ).to(torch.float32)


@pytest.fixture(scope="session")
def directory(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("vllm") / "model"
    model.save_pretrained(path)
    build_tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def start(directory):
    """Start a sampler; it ends with the file."""
    samplers = []

    def make(*, directory=directory, rescore=None, **options):
        options = EngineOptions(**{"memory": 0.15, "eager": True} | options)
        samplers.append(VLLMSampler(directory, build_tokenizer(), options=options, rescore=rescore))
        return samplers[-1]

    yield make
    for sampler in samplers:
        sampler.close()
