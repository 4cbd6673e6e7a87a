"""``python -m dph._processes.jobs.child module:function``: one job, a line of JSON on its input."""

import json
import os
import sys
import threading
import traceback
from importlib import import_module

from dph.errors import DphError, is_bad_input

BAD_INPUT = 2
"""The exit code of a child whose job cannot be done as it was given."""


def main() -> int:
    """Do the job; 0 where it is done, else 1 or 2, with the reason as stderr's last line."""
    line = _first_line()
    if not line:
        return 1
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    module, _, function = sys.argv[1].partition(":")
    try:
        getattr(import_module(module), function)(json.loads(line))  # torch, after the thread
    except DphError as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # noqa: T201
        return BAD_INPUT if is_bad_input(error) else 1
    except Exception as error:  # noqa: BLE001 - the parent tells it in one line
        traceback.print_exc()
        print(f"unexpected {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _first_line() -> bytes:
    """Read without a buffer: the thread waits for the end of the same pipe."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 65536)
        if not data:
            return b""
        line += data
    return line


def _end_with_the_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
