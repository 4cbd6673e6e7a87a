import subprocess
import sys

import pytest
from typer.main import get_command

from dph import __version__
from dph.cli import main
from dph.cli.app import app


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


def commands(command=None, name="dph"):
    """Every verb with its name."""
    command = command or get_command(app)
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {word}")


def test_set_overrides_a_setting_in_every_verb_that_has_it():
    options = {
        name: option
        for name, command in commands()
        for option in command.params
        if "--set" in option.opts
    }
    assert all(option.metavar == "KEY=VALUE" and option.multiple for option in options.values())
    assert options.keys() >= {"dph run", "dph interpolate"}


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["corpus", "dedup", "--input", "a"], "dph-corpus"),
        (["corpus"], "dph-corpus"),
        (["base", "b.toml"], "dph-corpus base"),
        (["sft", "--help"], "dph-corpus sft"),
    ],
)
def test_verbs_of_the_corpus_say_where_they_are(dph, words, command, monkeypatch):
    monkeypatch.setattr("dph.cli.app.find_spec", lambda _: None)
    code, out, err = dph(*words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"is `{command}` of the package dph-corpus" in err
    assert "pip install . ./corpus" in err
