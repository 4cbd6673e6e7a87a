"""Context managers that end or close themselves."""

from types import TracebackType
from typing import Self


class Ending:
    """``with`` calls ``leave``, which hears whether the block ended well."""

    def leave(self, *, well: bool) -> None:
        """End; not ``well``: the block raised an error, which is not caught."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave(well=error is None)


class Closing(Ending):
    """``with`` calls ``close`` at its end. What has nothing to stop does not override it."""

    def close(self) -> None:
        """Stop what runs, if anything does. Closing twice is harmless."""

    def leave(self, *, well: bool) -> None:  # noqa: ARG002
        self.close()
