"""What runs in a worker: a handler, and how it says what it is about to do."""

from collections.abc import Callable
from typing import Any, Protocol


class Stage(Protocol):
    """Tells the parent which part of a request begins. The time limit starts again."""

    def __call__(self, name: str, seconds: float = ..., /) -> object:
        """``seconds`` is the limit of this stage where it is not that of the pool."""
        ...


Handler = Callable[[Any, Stage], Any]
"""Called as ``handler(request, stage)``; both the request and the answer are JSON."""
