import io
import os
import subprocess
import sys
import termios

import pytest

from dph.cli.display.shown_problems import pager_command, show_text

LONG = "".join(f"line {number}\n" for number in range(100))
SHORT = "one\ntwo\n"
ENDS = ("stdin", "stdout")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def paged(tmp_path, monkeypatch):
    """A ``less`` that notes its words and what it is given, and terminals on both ends."""
    less = tmp_path / "less"
    less.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/in\n')
    less.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def shown(text, *, wanted=True, without=""):
        """What the pager was given, and what was printed."""
        ends = {name: io.StringIO() if name == without else Terminal() for name in ENDS}
        with monkeypatch.context() as here:
            for name, end in ends.items():
                here.setattr(sys, name, end)
            show_text(text, height=24, pager=wanted)
        got = tmp_path / "in"
        return got.read_text() if got.exists() else None, ends["stdout"].getvalue()

    return shown


def test_a_text_longer_than_the_screen_goes_through_less(paged, tmp_path):
    assert paged(LONG) == (LONG, "")
    assert (tmp_path / "words").read_text() == "-FRX\n"


@pytest.mark.parametrize("without", ENDS)
def test_without_a_terminal_on_both_ends_nothing_waits(paged, without):
    assert paged(LONG, without=without) == (None, LONG)


def test_what_fits_the_screen_needs_no_pager_or_cannot_have_one_is_printed(
    paged, monkeypatch, tmp_path
):
    assert paged(SHORT) == (None, SHORT)
    assert paged(LONG, wanted=False) == (None, LONG)
    for pager in ("no-such-pager -x", str(tmp_path)):
        monkeypatch.setenv("PAGER", pager)
        assert paged(LONG) == (None, LONG)
    monkeypatch.delenv("PAGER")
    monkeypatch.setenv("TERM", "dumb")  # which cannot move its cursor
    assert paged(LONG) == (None, LONG)


@pytest.mark.parametrize(
    ("pager", "command"),
    [
        (None, ["less", "-FRX"]),
        ("less", ["less", "-FRX"]),
        ("/usr/bin/less -S", ["/usr/bin/less", "-S", "-FRX"]),
        ("more -e", ["more", "-e"]),
        ("", None),
        ("  ", None),
        ("cat", None),
        ("less 'unclosed", None),
    ],
)
def test_the_pager_is_that_of_the_environment(monkeypatch, pager, command):
    if pager is None:
        monkeypatch.delenv("PAGER", raising=False)
    else:
        monkeypatch.setenv("PAGER", pager)
    assert pager_command() == command


def test_a_pager_that_is_left_early_is_no_error(paged, tmp_path):
    (tmp_path / "less").write_text("#!/bin/sh\nexit 0\n")
    assert paged("x" * 2**20 + "\n" * 30)[1] == ""


def test_less_ends_by_itself_on_a_terminal_where_nobody_types_if_all_fits():
    program = (
        "from dph.cli.display.shown_problems import show_text; show_text('a\\n' * 50, height=24)"
    )
    mine, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (90, 80))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm"}
    command = [sys.executable, "-c", program]
    ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, env=environment, start_new_session=True, **ends) as process:
        os.close(theirs)
        assert process.wait(30) == 0
    assert os.read(mine, 4096).count(b"a") == 50
    os.close(mine)
