"""The child process of a WorkerPool: ``python -m dph._processes.workers.child``.

With ``[handler, options]`` as JSON after it, it makes that handler once and forks children: what
the handler's module imports is imported once, and a worker is there in a millisecond.

One JSON value a line on stdin and stdout:

* parent: ``{"handler": "module:factory", "options": {...}, "parent": pid, "seconds": s}``,
  ``"mark"``, a text with which every line of the child begins, and ``"retires": false`` for a
  worker that nothing could replace
* child: ``["ready"]``, or ``["failed", reason]`` and it exits
* parent: a request, any JSON value; the next may follow at once
* child: any number of ``["stage", name]`` or ``["stage", name, limit]``, then
  ``["ok", value, seconds]`` or ``["error", reason, seconds]``
* child: ``["retire", reason]`` after a reply if it has come to hold too much memory. It answers
  nothing more; the parent replaces it.

``factory(options)`` returns the handler, called as ``handler(request, stage)``. What the handler
prints goes to stderr, whatever writes it. The child ends when its stdin closes or its parent
dies, also in the middle of a request.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from dph._base.import_path import load_callable
from dph._processes.child import end_when_left, serve_forks
from dph._processes.workers.handler import Handler, TellStage, memory_bytes
from dph.errors import DphError

_REASON_CHARACTERS = 1000
_CPU_MARGIN_SECONDS = 30
_MEMORY_GROWTH = 256_000_000
"""Bytes that a worker may hold beyond those at its start; the allocator does not return all."""
_LONG_SECONDS = 0.02
"""A request that is shorter cannot have come to hold that much."""


def main() -> None:
    source, sink = _private_channel()
    hello = json.loads(source.readline())
    end_when_left(source.fileno(), code=0, parent=hello["parent"])
    serve(source, sink, hello)


def _main_of_a_fork() -> NoReturn:
    """As ``main``, without what the process that forked this one would do at its exit."""
    code = 1
    try:
        main()
        code = 0
    finally:
        os._exit(code)


def serve(source: BinaryIO, sink: BinaryIO, hello: dict[str, Any]) -> None:
    """Make the handler that ``hello`` names and answer the requests from ``source``."""
    mark = hello.get("mark", "")

    def send(*message: Any) -> None:
        sink.write(f"{mark}{json.dumps(message)}\n".encode())
        sink.flush()

    def stage(name: str, *seconds: float) -> None:
        _limit_processor_time(seconds[0] if seconds else hello["seconds"])
        send("stage", name, *seconds)

    try:
        handler: Handler = load_callable(hello["handler"])(hello["options"])
    except DphError as error:
        send("failed", str(error))
        return
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        send("failed", _describe(error))
        return
    send("ready")
    retires = hello.get("retires", True)
    enough = memory_bytes(resident=True) + _MEMORY_GROWTH
    for line in source:
        _limit_processor_time(hello["seconds"])
        seconds = _answer(handler, json.loads(line), stage, send)
        if retires and seconds > _LONG_SECONDS and (held := memory_bytes(resident=True)) > enough:
            send("retire", f"it holds {held} bytes")
            return


def _answer(handler: Handler, request: Any, stage: TellStage, send: Callable[..., None]) -> float:
    """Send the answer, and return the seconds it took."""
    started = time.perf_counter()
    try:
        content = handler(request, stage)
        seconds = time.perf_counter() - started
        send("ok", content, round(seconds, 6))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told to the parent, which raises
        seconds = time.perf_counter() - started
        send("error", _describe(error), round(seconds, 6))
    return seconds


def _describe(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text[:_REASON_CHARACTERS]


def _private_channel() -> tuple[BinaryIO, BinaryIO]:
    """Take stdin and stdout away from everything else in the process, C code included."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(source, "rb"), os.fdopen(sink, "wb")


def _limit_processor_time(seconds: float) -> None:
    """Let the kernel end a request that holds the interpreter lock after the parent has died.

    Until then the parent's own limit comes first.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    threads = os.cpu_count() or 1
    soft = int(time.process_time() + seconds * threads) + _CPU_MARGIN_SECONDS
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    # A request that dies of a signal is an everyday event here, not one to dump core for.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if not sys.argv[1:]:
        main()
    else:
        path, options = json.loads(sys.argv[1])
        serve_forks(lambda: load_callable(path)(options), _main_of_a_fork)
