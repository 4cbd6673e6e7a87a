import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dph.cli.display.machine import PARTS, Installed, InstalledPart, parts

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def installed(text, found):
    return Installed(requirement=Requirement(text), version=found)


def test_a_version_fits_or_is_told_with_what_is_needed():
    assert str(installed("torch>=2.8,<2.14", "2.9.1")) == "torch 2.9.1"
    assert str(installed("torch>=2.8", None)) == "torch is missing"
    old = installed("torch>=2.8", "2.7")
    assert str(old) == "torch 2.7, but >=2.8 is needed"
    assert not old.fits


def test_a_part_says_what_is_missing_alone_and_how_it_comes():
    part = InstalledPart(
        name="trl", needs=(installed("torch>=2", "2.9"), installed("trl>=1.16,<2", None))
    )
    assert part.line() == "TRL (trl): not ready: trl is missing (pip install 'dph-rl[trl]')"
    assert part.as_json()["missing"] == ["trl is missing"]
    whole = InstalledPart(name="own", needs=(installed("torch>=2", "2.9"),))
    assert whole.line() == "own engine (own): ready: torch 2.9"


def test_what_no_package_brings_is_told_without_a_command():
    part = InstalledPart(
        name="vllm", needs=(installed("vllm>=1", "1.2"),), lacks="there is no CUDA device"
    )
    assert part.line() == "sampling with vLLM (vllm): not ready: there is no CUDA device"
    assert not part.ready


def test_what_is_asked_for_is_read_from_the_package_itself():
    found = {part.name: part for part in parts("pytest")}
    own = {one.requirement.name: one.version for one in found["own"].needs}
    assert own["pluggy"] == version("pluggy")
    assert found["own"].ready
    assert found["trl"].needs == ()


def test_an_extra_that_the_installed_package_is_too_old_to_have_is_not_ready():
    """Else it would be: nothing is asked for."""
    found = {part.name: part for part in parts("pytest")}
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


def test_the_first_part_is_what_every_run_needs():
    first, *extras = parts()
    assert first.name == "own"
    assert {"torch", "transformers"} <= {one.requirement.name for one in first.needs}
    names = {part.name: {one.requirement.name for one in part.needs} for part in extras}
    assert names["trl"] == {"trl"}
    assert "verl" in names["verl"]
