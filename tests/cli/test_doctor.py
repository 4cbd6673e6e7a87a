import json

from dph import __version__
from dph.cli.display import installed


def test_versions_devices_and_what_is_missing_are_printed(dph):
    code, out, err = dph("doctor")
    assert (code, err) == (0, "")
    assert out.startswith(f"dph: {__version__}\n")
    assert "CPU cores" in out
    own = next(line for line in out.splitlines() if line.startswith("own engine: ready: "))
    assert "; torch " in own


def test_machines_read_the_same(dph):
    code, out, _ = dph("doctor", "--json")
    content = json.loads(out)
    assert code == 0
    assert content["parts"]["own"]["ready"]
    assert content["parts"]["own"]["missing"] == []
    assert content["devices"]


def test_what_every_run_needs_and_is_not_there_is_a_failure(dph, monkeypatch):
    there = installed._version
    monkeypatch.setattr(installed, "_version", lambda n: None if n == "torch" else there(n))
    code, out, _ = dph("doctor")
    assert code == 1
    assert "own engine: not ready: torch is missing (pip install 'dph-rl')" in out
