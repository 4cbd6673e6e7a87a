"""The process of one trajectory: an instance of the user's class, its tools and its reward.

Requests: ``["describe"]``, ``["reset", columns, seed, member]``, ``["call", name, arguments]`` and
``["reward", messages]``. What the class raises is data here, not an error of this process.
"""

import asyncio
import inspect
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph._base.import_path import load_callable
from dph._processes.workers.handler import TellStage, limit_address_space, memory_bytes
from dph.errors import SettingsError
from dph.tasks.environments.calls import clean, tool_schema, tools_of
from dph.tasks.verifiers.function import as_verdict, awaited, describe_crash

_REASON_CHARACTERS = 500
_SEEDS = 2**32


def make_instance(options: Mapping[str, Any]) -> "Instance":
    directories = [Path(directory) for directory in options["directories"]]
    made = load_callable(options["path"], directories)
    if not inspect.isclass(made):
        kind = type(made).__name__
        raise SettingsError(f"{options['path']!r} is not a class, it is a {kind}: name a class")
    return Instance(made, options)


class Instance:
    """Answers the requests for one trajectory."""

    def __init__(self, made: Callable[[], Any], options: Mapping[str, Any]) -> None:
        self._made, self._options = made, options
        self._instance: Any = None
        # Taken before anything is called: a tool that changes its class changes neither.
        self._tools: dict[str, Callable[..., Any]] = {}
        self._reward: Callable[..., Any] | None = None
        self._reads_messages = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, request: Sequence[Any], _stage: TellStage) -> list[Any]:
        """Answer ``[kind, ...]``; the answer's kind says what came of it."""
        what, *given = request
        try:
            answer: list[Any] = getattr(self, f"_on_{what}")(*given)
            return answer
        except MemoryError:
            return ["over", f"more than {self._options['memory_bytes']} bytes of memory"]

    def _on_describe(self) -> list[Any]:
        self._make()
        if not callable(getattr(self._instance, "reset", None)):
            raise SettingsError(
                f"the class {self._options['path']!r} has no method 'reset', which begins a "
                "trajectory: def reset(self, **columns) -> str | None"
            )
        schemas = [tool_schema(tool) for tool in self._tools.values()]
        return ["described", schemas, self._reward is not None, self._reads_messages]

    def _on_reset(self, columns: Mapping[str, Any], seed: int, member: int) -> list[Any]:
        # One seed for all members of a group until they have begun: they begin alike.
        _seed(seed)
        try:
            limit_address_space(memory_bytes(resident=False) + self._options["memory_bytes"])
            self._make()
            said = self._finish(self._instance.reset(**columns))
        except (Exception, SystemExit) as error:
            if isinstance(error, MemoryError):
                raise
            return ["crashed", describe_crash(error)]
        _seed(seed + member + 1)
        if said is not None and not isinstance(said, str):
            kind = type(said).__name__
            return ["crashed", f"reset returned {said!r:.80} ({kind}); text or None is allowed"]
        return self._text(said or "", "said")

    def _on_call(self, name: str, arguments: Mapping[str, Any]) -> list[Any]:
        try:
            result = self._finish(self._tools[name](**arguments))
            text = result if isinstance(result, str) else str(result)
        except (Exception, SystemExit) as error:
            if isinstance(error, MemoryError):
                raise
            try:
                message = str(error)
            except Exception:  # noqa: BLE001 - a class of the user's
                message = "its message cannot be read"
            text = f"{type(error).__name__}: {message}"
            return ["raised", clean(text)[:_REASON_CHARACTERS]]
        return self._text(text, "result")

    def _on_reward(self, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
        assert self._reward is not None
        more = {"messages": messages} if self._reads_messages else {}
        try:
            verdict = as_verdict(self._finish(self._reward(**more)))
        except (Exception, SystemExit) as error:
            if isinstance(error, MemoryError):
                raise
            return ["crashed", f"get_reward: {describe_crash(error)}"]
        return ["worth", verdict.outcome, float(verdict.reward), verdict.reason]

    def _make(self) -> None:
        self._instance = self._made()
        self._tools = tools_of(self._instance)
        reward = getattr(self._instance, "get_reward", None)
        self._reward = reward if callable(reward) else None
        taken = inspect.signature(reward).parameters if callable(reward) else {}
        self._reads_messages = "messages" in taken

    def _finish(self, value: Any) -> Any:
        """The result of a method; that of an asynchronous one is awaited."""
        if not inspect.isawaitable(value):
            return value
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(awaited(value))

    def _text(self, text: str, kind: str) -> list[Any]:
        """The text, cut at the limit; one that is far over it ends the trajectory."""
        if len(text) > self._options["most_characters"]:
            return ["over", f"a text of {len(text)} characters"]
        text, limit = clean(text), self._options["result_characters"]
        cut = len(text) - limit
        return [kind, text if cut <= 0 else f"{text[:limit]}... ({cut} more characters)"]


def _seed(seed: int) -> None:
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % _SEEDS)
