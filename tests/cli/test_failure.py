import errno
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("cls", [SettingsError, DataError, PoolError, ModelError, CheckpointError])
def test_bad_input_is_two(cls, capsys):
    assert exit_code(cls("the reason\n  goes on")) == 2
    assert capsys.readouterr().err == "dph: error: the reason goes on\n"


@pytest.mark.parametrize("cls", [TrainingError, VerifierError, StageError])
def test_a_failed_run_is_one(cls, capsys):
    assert exit_code(cls("the reason")) == 1
    assert capsys.readouterr().err == "dph: error: the reason\n"


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
    command = [sys.executable, "-c", "import sys; from dph.cli import main; sys.exit(main())"]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False)


def test_the_process_ends_with_these_codes():
    version = process("--version")
    assert (version.returncode, version.stdout) == (0, "dph 0.1.0\n")
    missing = process("run", "nope.toml")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert (
        missing.stderr
        == "dph: error: cannot read the recipe nope.toml: No such file or directory\n"
    )


def test_a_failing_verifier_is_one_line_and_one(dph, example):
    verifier = example.parent / "verifier.py"
    verifier.write_text("def grade(response, problem):\n    return 'yes'\n")
    code, out, err = dph("train", example, "--set", "method=grpo")
    assert (code, out) == (1, "")
    assert "it returned 'yes'" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("place", [None, "/full/file"])
def test_what_the_system_refuses_is_one_line_without_a_traceback(place, capsys):
    error = OSError(errno.ENOSPC, "some words", place)
    assert exit_code(error) == 1
    where = f": {place}" if place else ""
    message = f"No space left on device{where}; finished work is kept"
    assert capsys.readouterr().err == f"dph: error: {message}\n"
