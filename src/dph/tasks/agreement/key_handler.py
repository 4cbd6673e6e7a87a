"""The child's side of agreement by a user's own function: call it, write down its key."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dph._base.import_path import load_callable
from dph._processes.workers.handler import TellStage
from dph.records import Problem
from dph.tasks.verifiers.function_handler import describe_crash, requested_problem


class KeyReader:
    """Answers requests ``{"response", "problem_id", "prompt", "answer"}`` by ``[crash, key]``.

    ``crash`` is '' where the function returned; ``key`` is JSON text or None.
    """

    def __init__(self, function: Callable[[str, Problem], Any]) -> None:
        self._function = function

    def __call__(self, request: Mapping[str, Any], stage: TellStage) -> tuple[str, str | None]:
        """Call the function.

        Raises:
            TypeError: what it returned is no key.
        """
        del stage
        problem = requested_problem(request)
        try:
            value = self._function(request["response"], problem)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the answer's doing, mostly
            return describe_crash(error), None
        return "", None if value is None else json.dumps(plain_key(value), sort_keys=True)


def plain_key(value: Any) -> Any:
    """A key as JSON; 1, 1.0 and True are three keys.

    Raises:
        TypeError: it is nothing that two answers could have in common.
    """
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [plain_key(part) for part in value]
    raise TypeError(
        f"it returned {value!r:.80} ({type(value).__name__}); a key is text, a finite number, a "
        f"bool, or a list of those, and None means no result"
    )


def make_key_reader(options: Mapping[str, Any]) -> KeyReader:
    """The worker's handler; ``options`` are the function's path and where its module lies."""
    directories = [Path(directory) for directory in options["directories"]]
    return KeyReader(load_callable(options["path"], directories))
