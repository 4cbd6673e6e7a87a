import math

import pytest

from dph.errors import SettingsError
from dph.runs import memory as at_hand
from dph.runs.memory import device_at_hand, device_of

TOTAL_KB = 16 * 2**20
"""16 GiB, as /proc/meminfo counts."""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A program ``nvidia-smi`` that prints what it is told to, and nothing else on the path."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def says(text, code=0):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\nprintf '{text}'\nexit {code}\n")
        program.chmod(0o755)

    return says


@pytest.fixture
def limits(tmp_path, monkeypatch):
    """A machine of 16 GiB; limits of its groups are written into files."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:       {TOTAL_KB} kB\nMemFree:  1 kB\n")
    paths = tmp_path / "new", tmp_path / "old"
    monkeypatch.setattr(at_hand, "_LIMITS", tuple(map(str, paths)))
    monkeypatch.setattr(at_hand, "_TOTAL", str(meminfo))
    return paths


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_the_first_gpu_of_the_driver_is_the_device(driver, wanted):
    driver("NVIDIA A10G, 23028\\nNVIDIA L4, 23034\\n")
    device = device_at_hand(wanted)
    assert (device.name, device.cuda, device.memory) == ("NVIDIA A10G", True, 23028 * 2**20)


def test_a_name_with_a_comma_is_a_name(driver):
    driver("Card, the second, 1024\\n")
    assert device_at_hand("cuda").name == "Card, the second"


@pytest.mark.usefixtures("limits")
def test_who_wants_the_cpu_is_not_given_a_gpu(driver):
    driver("NVIDIA A10G, 23028\\n")
    device = device_at_hand("cpu")
    assert (device.name, device.cuda, device.memory) == ("this machine", False, 2**34)


@pytest.mark.usefixtures("limits")
def test_without_a_driver_or_its_device_there_is_the_machine_or_nothing(
    driver, tmp_path, monkeypatch
):
    for text, code in (("", 0), ("No devices were found\\n", 6), ("NVIDIA A10G, [N/A]\\n", 0)):
        driver(text, code)
        assert device_at_hand("auto").name == "this machine"
        assert device_at_hand("cuda") is None
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert device_at_hand("auto").memory == 2**34


@pytest.mark.parametrize(
    ("new", "old", "gib"), [("max\n", None, 16), (f"{2**32}\n", None, 4), (None, str(2**31), 2)]
)
def test_what_a_group_of_processes_may_take_is_less_than_the_machine_has(limits, new, old, gib):
    for path, text in zip(limits, (new, old), strict=True):
        if text is not None:
            path.write_text(text)
    assert device_at_hand("cpu").memory == gib * 2**30


@pytest.mark.usefixtures("limits")
def test_a_system_that_does_not_tell_is_not_guessed(monkeypatch):
    monkeypatch.setattr(at_hand, "_TOTAL", "/nowhere/meminfo")
    assert device_at_hand("cpu") is None


def test_a_device_that_is_not_at_hand_is_a_gpu_unless_the_cpu_is_wanted():
    card, machine = device_of(24, "auto"), device_of(0.5, "cpu")
    assert (card.cuda, card.memory, card.name) == (True, 24 * 2**30, "a GPU of 24 GiB")
    assert (machine.cuda, machine.memory) == (False, 2**29)
    assert machine.name == "a machine of 0.5 GiB"
    for gib in (0, -1, math.inf, math.nan):
        with pytest.raises(SettingsError, match="is above 0 GiB, got"):
            device_of(gib, "auto")
