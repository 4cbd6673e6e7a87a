import subprocess
import sys

import pytest

from dph import __version__
from dph.cli import main


@pytest.mark.parametrize(
    ("typed", "offered"), [("dph rec", ["recipe"]), ("dph recipe ch", ["check"])]
)
def test_a_shell_completes_verbs(monkeypatch, capsys, typed, offered):
    monkeypatch.setenv("_DPH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    assert capsys.readouterr().out.split() == offered


def test_the_package_runs_as_a_module():
    words = [sys.executable, "-m", "dph", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout == f"dph {__version__}\n"
