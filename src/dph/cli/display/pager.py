"""A long text on a terminal: a screen at a time where somebody can type, else printed."""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

_LESS = "-FRX"
"""Of less: end at once if it fits the screen, colours as they are, leave the text on the screen."""


def show_text(text: str, *, height: int, pager: bool = True) -> None:
    """Print ``text``, through a pager where it is longer than a screen of ``height`` lines.

    There is no pager unless stdin and stdout are terminals that can move their cursor: nobody
    could leave it.
    """
    command = pager_command() if pager and _can_type() else None
    longer = text.count("\n") >= height
    if not longer or command is None or not _paged(text, command):
        sys.stdout.write(text)
        sys.stdout.flush()


def pager_command() -> list[str] | None:
    """The words of ``$PAGER``, or ``less``; None for an empty one, ``cat`` and what is no command.

    less always has ``-FRX``, whatever else it is given.
    """
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # a quotation mark without its other one
        return None
    if not words or words == ["cat"]:
        return None
    return [*words, _LESS] if Path(words[0]).name == "less" else words


def _can_type() -> bool:
    terminals = sys.stdin.isatty() and sys.stdout.isatty()
    return terminals and os.environ.get("TERM", "dumb") != "dumb"


def _paged(text: str, command: list[str]) -> bool:
    """Whether the pager could be started; it is waited for."""
    program = shutil.which(command[0])
    if program is None:
        return False
    try:
        process = subprocess.Popen([program, *command[1:]], stdin=subprocess.PIPE)
    except OSError:  # no program of this machine
        return False
    with contextlib.suppress(BrokenPipeError):  # it was left before the end
        process.communicate(text.encode("utf-8", "backslashreplace"))
    while True:
        try:
            process.wait()
        except KeyboardInterrupt:  # Ctrl-C is the pager's, which goes on
            continue
        return True
