import json
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from dph import __version__
from dph._base.provenance import install_command
from dph.cli.display import machine as installed


@pytest.fixture(autouse=True)
def _confined(monkeypatch):
    """Programs are confined in their own tests; here it would only take a second."""
    monkeypatch.setattr(installed, "_confinement", lambda: "fully confined")


@pytest.fixture
def without(monkeypatch):
    """As if some packages were not installed."""
    there = installed._version

    def leave_out(*names):
        monkeypatch.setattr(installed, "_version", lambda n: None if n in names else there(n))

    return leave_out


def test_versions_devices_and_what_is_missing_are_printed(dph, document):
    code, out, err = dph("doctor")
    assert (code, err) == (0, "")
    assert out.startswith(f"dph: {__version__}\n")
    assert "CPU cores" in out
    assert "\nprograms: fully confined\n" in out
    own = next(line for line in out.splitlines() if line.startswith("own engine (own): ready: "))
    assert "; torch " in own
    told = [line for line in out.splitlines() if "ready: " in line]
    assert len(told) == len(installed.PARTS)
    content = document("doctor")
    assert list(content["parts"]) == [*installed.PARTS]
    assert content["parts"]["own"]["ready"]
    assert content["memory"] > 2**28


def test_what_is_missing_is_a_failure_of_all_or_of_the_parts_that_are_named(dph, without):
    without("torch", "trl")
    code, out, _ = dph("doctor")
    assert code == 1
    assert f"own engine (own): not ready: torch is missing ({install_command()})" in out
    code, out, _ = dph("doctor", "trl", "--json")
    assert code == 1
    [(name, trl)] = json.loads(out)["parts"].items()
    assert (name, trl["missing"]) == ("trl", ["trl is missing"])
    without("torch")
    assert dph("doctor", "math")[0] == 0


def test_a_name_that_is_no_part_is_refused_with_those_that_are(refusal):
    assert "'trll' is not one of own, trl, verl, vllm," in refusal("doctor", "trll")


def test_a_package_that_is_found_but_not_installed_is_told(dph, monkeypatch):
    def nowhere(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installed, "requires", nowhere)
    monkeypatch.setattr(installed, "version", nowhere)
    code, out, _ = dph("doctor", "own")
    assert code == 1
    assert f"own engine (own): not ready: dph-rl is missing ({install_command()})" in out


def test_without_a_gpu_its_fast_paths_are_not_looked_at(dph, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "\nfast paths: not looked at: there is no CUDA device\n" in dph("doctor")[1]


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of some compute capability, with a build of torch that has FlashAttention."""

    def choose(*capability, flash=True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
        there = torch.backends.cuda
        monkeypatch.setattr(there, "is_flash_attention_available", lambda: flash)
        known = installed._version
        versions = {"liger-kernel": "0.8.5", "bitsandbytes": None, "cut-cross-entropy": None}
        monkeypatch.setattr(
            installed, "_version", lambda n: versions[n] if n in versions else known(n)
        )

    return choose


def test_each_fast_path_of_a_gpu_is_there_or_says_why_not(dph, document, gpu):
    gpu(9, 0)
    assert document("doctor")["fast_paths"] == {
        "bfloat16": "yes",
        "attention of packed rows in one call": "yes",
        "one CUDA graph a token": "yes",
        "fused AdamW": "yes",
        "products of bfloat16 summed in float32": "yes",
        "liger-kernel": "0.8.5",
        "cut-cross-entropy": "no: cut-cross-entropy is missing",
        "bitsandbytes": "no: bitsandbytes is missing",
    }
    gpu(9, 0, flash=False)
    assert (
        "\nfast paths: one CUDA graph a token: no: torch is built without Flash" in dph("doctor")[1]
    )


def test_a_gpu_before_ampere_lacks_what_takes_16_bits(document, gpu):
    gpu(7, 5)
    found = document("doctor")["fast_paths"]
    lacks = [name for name, state in found.items() if "compute capability 7.5" in state]
    assert lacks == [
        "bfloat16",
        "attention of packed rows in one call",
        "one CUDA graph a token",
        "products of bfloat16 summed in float32",
    ]
