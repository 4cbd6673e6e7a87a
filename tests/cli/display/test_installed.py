from importlib.metadata import version

from packaging.requirements import Requirement

from dph.cli.display.installed import Installed, Part, parts


def installed(text, found):
    return Installed(requirement=Requirement(text), version=found)


def test_a_version_fits_or_is_told_with_what_is_needed():
    assert str(installed("torch>=2.8,<2.14", "2.9.1")) == "torch 2.9.1"
    assert str(installed("torch>=2.8", None)) == "torch is missing"
    old = installed("torch>=2.8", "2.7")
    assert str(old) == "torch 2.7, but >=2.8 is needed"
    assert not old.fits


def test_a_part_says_what_is_missing_alone_and_how_it_comes():
    part = Part(extra="trl", needs=(installed("torch>=2", "2.9"), installed("trl>=1.16,<2", None)))
    assert part.line() == "TRL: not ready: trl is missing (pip install 'dph-rl[trl]')"
    assert part.as_json()["missing"] == ["trl is missing"]
    whole = Part(extra="", needs=(installed("torch>=2", "2.9"),))
    assert whole.line() == "own engine: ready: torch 2.9"


def test_what_is_asked_for_is_read_from_the_package_itself():
    found = {part.name: part for part in parts("pytest")}
    own = {one.requirement.name: one.version for one in found["own"].needs}
    assert own["pluggy"] == version("pluggy")
    assert found["trl"].needs == ()


def test_the_first_part_is_what_every_run_needs():
    first, *extras = parts()
    assert first.name == "own"
    assert {"torch", "transformers"} <= {one.requirement.name for one in first.needs}
    names = {part.name: {one.requirement.name for one in part.needs} for part in extras}
    assert names["trl"] == {"trl"}
    assert "verl" in names["verl"]
