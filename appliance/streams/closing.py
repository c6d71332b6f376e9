"""Closing at the end of a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ClosedOnExit(ABC):
    """Closes itself at the end of its `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; may be called more than once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
