"""What the verifiers without worker processes share: nothing to close."""

from types import TracebackType
from typing import Self


class UnpooledVerifier:
    """A context manager whose end does nothing."""

    def close(self) -> None:
        """There is nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
