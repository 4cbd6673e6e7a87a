import sys

import pytest

from dph.cli.display import machine as module
from dph.cli.display.machine import machine, machine_line
from dph.errors import SettingsError


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


def test_what_programs_would_not_be_kept_from_is_told(monkeypatch):
    monkeypatch.setattr("dph.tasks.verifiers.code.verifier.CodeVerifier", Confined)
    assert module._confinement() == "confined except for namespaces (not permitted)"

    def refused():
        raise SettingsError("the code verifier cannot be used: no")

    monkeypatch.setattr("dph.tasks.verifiers.code.verifier.CodeVerifier", refused)
    assert module._confinement() == "cannot be graded: the code verifier cannot be used: no"


@pytest.mark.parametrize("missing", [(), ("files",)])
def test_the_confinement_of_this_machine_is_the_code_verifiers_own(missing, monkeypatch):
    monkeypatch.setattr(Confined, "missing", missing)
    monkeypatch.setattr("dph.tasks.verifiers.code.verifier.CodeVerifier", Confined)
    assert module._confinement() == ("confined except for files" if missing else "fully confined")
