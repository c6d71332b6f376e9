"""Operations that the host has begun and not waited for."""

from collections.abc import Callable, Sequence
from typing import Protocol

from appliance.sdk.host.arrays import Words


class Commands(Protocol):
    """What executes operations, one after another in the order in which they were begun."""

    def is_done(self, ticket: int) -> bool:
        """Whether an operation has ended; lets some simulated time pass if not."""

    def has_ended(self, ticket: int) -> bool:
        """Whether an operation has ended so far; no time passes."""

    def wait(self, ticket: int) -> Words | None:
        """Let time pass until an operation has ended; returns what it copied to the host."""


class Task:
    """One operation.

    Args:
        commands: Executes it.
        ticket: Its number there.
        deliver: Takes what it copies to the host; None if it copies nothing.
    """

    def __init__(
        self, commands: Commands, ticket: int, deliver: Callable[[Words], None] | None
    ) -> None:
        self._commands, self._ticket, self._deliver = commands, ticket, deliver
        self._is_delivered = False

    @property
    def has_ended(self) -> bool:
        """Whether it has ended so far; no time passes."""
        return self._is_delivered or self._commands.has_ended(self._ticket)

    def done(self) -> bool:
        """Whether it has ended; if so, what it copied is in the host's array."""
        if not self._is_delivered and self._commands.is_done(self._ticket):
            self.wait()
        return self._is_delivered

    def wait(self) -> None:
        """Let simulated time pass until it has ended."""
        if self._is_delivered:
            return
        data = self._commands.wait(self._ticket)
        if self._deliver is not None and data is not None:
            self._deliver(data)
        self._is_delivered = True


class Tasks(Task):
    """Several operations that are one for the host."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def done(self) -> bool:
        """Whether all have ended."""
        return all([task.done() for task in self._tasks])

    def wait(self) -> None:
        """Let simulated time pass until all have ended."""
        for task in self._tasks:
            task.wait()
