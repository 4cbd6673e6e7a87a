import contextlib
import errno
import io
import re
import subprocess
import sys

import pytest
from typer.main import get_command

from dph import __version__
from dph.cli import main
from dph.cli.app import SECTIONS, app
from dph.cli.options import exit_code
from dph.errors import (
    CheckpointError,
    DataError,
    ModelError,
    PoolError,
    SettingsError,
    StageError,
    TrainingError,
    VerifierError,
)


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


ROOT = get_command(app)


def verbs(command, words=()):
    yield words
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from verbs(below, (*words, name))


ALL = list(verbs(ROOT))
GROUPS = [words for words in ALL if not words or any(o[:-1] == words for o in ALL if o)]


def help_of(words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        ROOT.main([*words, "--help"], prog_name="dph", standalone_mode=False)
    return out.getvalue()


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_fits_eighty_columns_and_has_no_types_of_python(words):
    text = help_of(words)
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<(path|str|int|float|bool|boolean|text)>|\{\w+\}|\[default: \(", text)


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_lists_every_verb_in_one_whole_line(words):
    lines = help_of(words).splitlines()
    below = {one[-1] for one in ALL if one and one[:-1] == words}
    listed = {}
    for line in lines:
        found = re.fullmatch(r"  ([a-z-]+) +(\S.*)", line)
        if found and found[1] in below:
            listed[found[1]] = found[2]
    assert listed.keys() == below
    assert all(re.fullmatch(r"[A-Z`].*\.", summary) for summary in listed.values()), listed
    assert not any(summary.endswith("..") for summary in listed.values())


def test_set_is_a_setting_in_every_verb():
    found = [re.findall(r"--set +(\S+) +(.*)", help_of(words)) for words in ALL]
    meanings = {meaning for of_verb in found for meaning in of_verb}
    assert {value for value, _ in meanings} == {"KEY=VALUE"}
    assert all(said.startswith("Override a setting") for _, said in meanings), meanings


def test_the_verbs_stand_in_the_order_in_which_they_are_met():
    text = help_of(())
    places = [text.index(f"\n{section}:\n") for section in SECTIONS]
    assert places == sorted(places)
    assert list(SECTIONS) == ["Start", "Train", "Measure", "Report", "Publish"]


def test_usage_names_arguments_as_manuals_do():
    assert help_of(("show",)).startswith("Usage: dph show [OPTIONS] RUN [OTHER]\n")
    assert help_of(("compare",)).startswith("Usage: dph compare [OPTIONS] RUN...\n")
    assert help_of(("doctor",)).startswith("Usage: dph doctor [OPTIONS] [PART...]\n")


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        *((cls, 2) for cls in (SettingsError, DataError, PoolError, ModelError, CheckpointError)),
        *((cls, 1) for cls in (TrainingError, VerifierError, StageError)),
    ],
)
def test_bad_input_is_two_and_a_failed_run_one(cls, code, capsys):
    assert exit_code(cls("the reason\n  goes on")) == code
    assert capsys.readouterr().err == "dph: error: the reason goes on\n"


def test_what_nobody_foresaw_keeps_its_traceback(capsys):
    try:
        raise ZeroDivisionError("by nought")
    except ZeroDivisionError as error:
        code = exit_code(error)
    err = capsys.readouterr().err
    assert code == 1
    assert "Traceback (most recent call last)" in err
    assert err.endswith("unexpected ZeroDivisionError: by nought; the traceback is above\n")


def test_an_interruption_is_130(capsys):
    assert exit_code(KeyboardInterrupt()) == 130
    assert "continues where it stopped" in capsys.readouterr().err


def process(*words):
    command = [sys.executable, "-m", "dph", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_process_ends_with_these_codes():
    version = process("--version")
    assert (version.returncode, version.stdout) == (0, f"dph {__version__}\n")
    missing = process("run", "nope.toml")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert (
        missing.stderr
        == "dph: error: cannot read the recipe nope.toml: No such file or directory\n"
    )


@pytest.mark.parametrize("place", [None, "/full/file"])
def test_what_the_system_refuses_is_one_line_without_a_traceback(place, capsys):
    error = OSError(errno.ENOSPC, "some words", place)
    assert exit_code(error) == 1
    where = f": {place}" if place else ""
    message = f"No space left on device{where}; finished work is kept"
    assert capsys.readouterr().err == f"dph: error: {message}\n"
