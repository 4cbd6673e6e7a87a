"""Whether vLLM still has what the sampler uses of it, installed or as a source tree.

``DPH_VLLM_SOURCE=<directory of the package vllm> pytest tests/model/sampler/vllm/test_contract.py``
"""

import importlib.util
import os
from pathlib import Path

import pytest

from vllm_contract import moved


def source():
    if named := os.environ.get("DPH_VLLM_SOURCE"):
        return Path(named)
    spec = importlib.util.find_spec("vllm")
    return Path(spec.submodule_search_locations[0]) if spec else None


@pytest.mark.skipif(source() is None, reason="needs vLLM, or its source in DPH_VLLM_SOURCE")
def test_vllm_has_all_that_the_sampler_uses():
    assert moved(source()) == []


def test_a_renamed_and_a_new_parameter_are_named(tmp_path):
    file = tmp_path / "v1" / "engine" / "llm_engine.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "class LLMEngine:\n"
        "    def add_request(self, name, prompt, params, *, tenant, time=None): ...\n"
        "    def step(self): ...\n"
    )
    found = [each for each in moved(tmp_path) if "LLMEngine." in each]
    assert found == [
        "v1/engine/llm_engine.py: LLMEngine.add_request has no request_id any more",
        "v1/engine/llm_engine.py: LLMEngine.add_request requires name now",
        "v1/engine/llm_engine.py: LLMEngine.add_request requires tenant now",
        "v1/engine/llm_engine.py: LLMEngine.abort_request is gone",
    ]
