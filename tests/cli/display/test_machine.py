import sys
import tomllib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dph._base.provenance import install_command
from dph.cli.display import machine as module
from dph.cli.display.machine import (
    PARTS,
    Installed,
    InstalledPart,
    machine,
    machine_line,
    memory_json,
    memory_lines,
    parts,
)
from dph.errors import SettingsError
from dph.runs.memory import Device, MemoryEstimate


class Confined:
    """A code verifier that lacks some parts of the confinement."""

    missing = ("namespaces (not permitted)",)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_lines_are_for_people():
    assert machine_line("memory", 3 * 2**30) == "memory: 3.0 GiB"
    assert machine_line("cuda", False) == "cuda: no"
    assert machine_line("devices", ["a", "b"]) == "devices: a; b"
    assert machine_line("memory", None) == "memory: unknown"


def test_without_torch_and_the_hub_there_is_still_something_to_say(monkeypatch):
    monkeypatch.setattr("dph.tasks.verifiers.code.verifier.CodeVerifier", Confined)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    found = machine()
    assert not found["cuda"]
    assert found["devices"][0].endswith("CPU cores")
    assert found["hub"] == "huggingface_hub is missing"


@pytest.mark.parametrize("missing", [(), ("namespaces (not permitted)",)])
def test_what_programs_would_not_be_kept_from_is_told(missing, monkeypatch):
    monkeypatch.setattr(Confined, "missing", missing)
    monkeypatch.setattr("dph.tasks.verifiers.code.verifier.CodeVerifier", Confined)
    said = f"confined except for {missing[0]}" if missing else "fully confined"
    assert module._confinement() == said

    def refused():
        raise SettingsError("the code verifier cannot be used: no")

    monkeypatch.setattr("dph.tasks.verifiers.code.verifier.CodeVerifier", refused)
    assert module._confinement() == "cannot be graded: the code verifier cannot be used: no"


GIB, MIB = 2.0**30, 2.0**20
FOUND = MemoryEstimate(
    weights=4 * GIB,
    gradients=2 * GIB,
    optimizer=8 * GIB,
    activations=3 * GIB,
    activations_apart=9 * GIB,
    step=1 * GIB,
    cache=512 * MIB,
    logits=256 * MIB,
    vllm=0.0,
    several=True,
    head=1 * GIB,
)
CARD = Device(name="NVIDIA L4", cuda=True, memory=22.5 * GIB)


def test_training_and_sampling_are_told_part_by_part_and_add_up():
    training, sampling = memory_lines(FOUND, None)
    # 4 + 8, and the more of 2 + 3 and 2 + 1.
    assert training == (
        "memory, estimated: training 17.0 GiB = weights 4.0 GiB, optimizer 8.0 GiB, and the more "
        "of gradients 2.0 GiB with the optimizer's step 1.0 GiB and activations 3.0 GiB (without "
        "sharing prompts 9.0 GiB)"
    )
    # 4 + 8 + 0.5 + 0.25.
    assert sampling == (
        "memory, estimated: sampling 12.8 GiB = weights, optimizer, cache 512 MiB, logits and "
        "prefill 256 MiB"
    )


def test_vllm_and_the_device_are_told_where_there_are_some():
    *_, vllm, device = memory_lines(replace(FOUND, vllm=11 * GIB), CARD)
    assert vllm == "memory, estimated: vLLM 11.0 GiB while pre-sampling and evaluating"
    assert device == "memory available: 22.5 GiB (NVIDIA L4)"


@pytest.mark.parametrize("device", [None, CARD])
def test_machines_read_bytes(device):
    document = memory_json(FOUND, device)
    assert document["training"] == document["peak"] == 17 * 2**30
    assert document["sampling"] == round(12.75 * GIB)
    wanted = {"name": "NVIDIA L4", "bytes": round(22.5 * GIB)}
    assert document.pop("device") == (wanted if device else None)
    assert all(type(value) is int for value in document.values())


PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def requirement(text, found):
    return Installed(requirement=Requirement(text), version=found)


def test_a_version_fits_or_is_told_with_what_is_needed():
    assert str(requirement("torch>=2.8,<2.14", "2.9.1")) == "torch 2.9.1"
    assert str(requirement("torch>=2.8", None)) == "torch is missing"
    old = requirement("torch>=2.8", "2.7")
    assert str(old) == "torch 2.7, but >=2.8 is needed"
    assert not old.fits


def test_a_part_says_what_is_missing_alone_and_how_it_comes():
    part = InstalledPart(
        name="trl", needs=(requirement("torch>=2", "2.9"), requirement("trl>=1.16,<2", None))
    )
    assert part.line() == f"TRL (trl): not ready: trl is missing ({install_command('trl')})"
    assert part.as_json()["missing"] == ["trl is missing"]
    whole = InstalledPart(name="own", needs=(requirement("torch>=2", "2.9"),))
    assert whole.line() == "own engine (own): ready: torch 2.9"
    # What no package brings is told without a command.
    part = InstalledPart(
        name="vllm", needs=(requirement("vllm>=1", "1.2"),), lacks="there is no CUDA device"
    )
    assert part.line() == "sampling with vLLM (vllm): not ready: there is no CUDA device"
    assert not part.ready


def test_what_is_asked_for_is_read_from_the_package_itself():
    found = {part.name: part for part in parts("pytest")}
    own = {one.requirement.name: one.version for one in found["own"].needs}
    assert own["pluggy"] == version("pluggy")
    assert found["own"].ready
    # An extra that the installed package is too old to have asks for nothing and is not ready.
    assert found["trl"].needs == ()
    assert not found["trl"].ready
    assert "has no extra 'trl': reinstall it" in found["trl"].line()


@pytest.mark.parametrize("cuda", [True, False])
def test_parts_for_cuda_alone_need_a_device(cuda):
    found = {part.name: part for part in parts(cuda=cuda)}
    for name in ("vllm", "cce"):
        assert ("there is no CUDA device" in found[name].missing) == (not cuda)
    assert "there is no CUDA device" not in found["trl"].missing


def test_every_extra_but_that_of_developers_is_a_part():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert {"own", *extras} - {"dev"} == set(PARTS)
