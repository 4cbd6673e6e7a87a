"""Something with an end: a context manager that closes itself."""

from types import TracebackType
from typing import Self


class Closing:
    """``with`` calls ``close`` at its end. What has nothing to stop does not override it."""

    def close(self) -> None:
        """Stop what runs, if anything does. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
