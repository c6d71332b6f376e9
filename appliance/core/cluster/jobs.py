"""Jobs as all parts see them: kinds, phases, and which phase may follow which."""

from enum import StrEnum


class JobType(StrEnum):
    """Kind of a job."""

    COMPILE = "compile"
    EXECUTE = "execute"
    DRIVER = "driver"
    SDK_COMPILE = "sdk-compile"
    SDK_EXECUTE = "sdk-execute"

    @property
    def queue_type(self) -> "JobType":
        """The type whose place in the queue, quotas and defaults it shares."""
        return _QUEUE_TYPES.get(self, self)

    @property
    def is_sdk(self) -> bool:
        """Whether programs of the SDK are compiled or run in it."""
        return self in _QUEUE_TYPES

    @property
    def has_gang(self) -> bool:
        """Whether it consists of more than one pod."""
        return self is JobType.EXECUTE


_QUEUE_TYPES = {JobType.SDK_COMPILE: JobType.COMPILE, JobType.SDK_EXECUTE: JobType.EXECUTE}


class Phase(StrEnum):
    """Where a job stands."""

    CREATED = "CREATED"
    QUEUED = "QUEUED"
    SCHEDULED = "SCHEDULED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended."""
        return self in _TERMINAL

    @property
    def holds_resources(self) -> bool:
        """Whether systems and nodes are granted to the job."""
        return self in _GRANTED


_TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED})
_GRANTED = frozenset({Phase.SCHEDULED, Phase.INITIALIZING, Phase.RUNNING, Phase.FAILING})

_AFTER_GRANT = frozenset({Phase.FAILING, Phase.QUEUED}) | _TERMINAL
"""A job that is stopped for a higher priority goes back into the queue."""

_NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.CREATED: frozenset({Phase.QUEUED}) | _TERMINAL,
    Phase.QUEUED: frozenset({Phase.SCHEDULED}) | _TERMINAL,
    Phase.SCHEDULED: frozenset({Phase.INITIALIZING, *_AFTER_GRANT}),
    Phase.INITIALIZING: frozenset({Phase.RUNNING, *_AFTER_GRANT}),
    Phase.RUNNING: _AFTER_GRANT,
    Phase.FAILING: frozenset({Phase.FAILED, Phase.CANCELLED}),
    Phase.SUCCEEDED: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.CANCELLED: frozenset(),
}


def may_follow(current: Phase, new: Phase) -> bool:
    """Whether a job in phase `current` may enter phase `new`."""
    return new in _NEXT[current]
