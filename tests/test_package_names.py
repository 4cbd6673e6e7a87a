"""What a user may import from the packages that run models."""

import importlib
import subprocess
import sys

import pytest

NAMES = {
    "dph.rollout": [
        "EngineOptions",
        "GradedSampler",
        "Rollout",
        "SampleRequest",
        "Sampler",
        "SamplingParameters",
        "TorchSampler",
        "VLLMSampler",
    ],
    "dph.forward": [
        "CompletionScores",
        "Microbatch",
        "Sharing",
        "completion_scores",
        "plan_microbatches",
        "score_completions",
    ],
    "dph.models": [
        "chat_messages",
        "encode_prompt",
        "load_config",
        "load_model",
        "load_tokenizer",
        "stop_token_ids",
        "tokenizer_fingerprint",
        "weight_fingerprint",
    ],
}


@pytest.mark.parametrize("package", NAMES)
def test_a_package_offers_these_names_and_each_is_there(package):
    module = importlib.import_module(package)
    assert module.__all__ == NAMES[package]
    assert set(module.__all__) <= set(dir(module))
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        _ = module.none


def test_importing_the_packages_loads_no_torch():
    code = f"import sys, {', '.join(NAMES)}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
