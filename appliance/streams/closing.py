"""Closing at the end of a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ClosedOnExit(ABC):
    """Is closed when the `with` block that it was opened for ends, however that ends."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds; may be called more than once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
