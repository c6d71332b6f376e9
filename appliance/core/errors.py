"""The errors of the appliance, in one tree.

    WscError
    |-- UserError       the request is at fault: HTTP 4xx, exit 2
    |   |-- NotFoundError       it names something that does not exist
    |   |-- ConflictError       it clashes with the object's present state
    |   |   `-- StaleError          it was made for an older state of the object: HTTP 412
    |   |-- UnauthenticatedError  it does not prove who sends it: HTTP 401
    |   |-- ForbiddenError      who sends it may not do that: HTTP 403
    |   |-- TooLargeError       a message is longer than its entry point reads: HTTP 413
    |   |-- TooSlowError        a message did not arrive in its time: HTTP 408
    |   |-- ProgramError        the program cannot be imported or compiled
    |   `-- UnschedulableError  no state of this cluster could ever grant it
    |-- ClusterError    the cluster is at fault and a retry may help: HTTP 503, exit 3
    |   |-- TooManyRequestsError  the caller, or all together, ask for too much at once: HTTP 429
    |   |-- StaleWriterError    another management has taken over
    |   |-- PodFailedError      a pod ended or stopped answering
    |   `-- StreamClosedError   the other end of a tensor stream went away
    |       `-- StreamAbandonedError  it closed the stream itself and says elsewhere why
    `-- InternalError   we are at fault: HTTP 500, exit 4

The message is one sentence that names the object and the numbers that clash; `hint` says what to do
next. Each error is translated once, at the edge of a process (servicer, REST, csctl).
"""


class WscError(Exception):
    """Base of every error the appliance raises on purpose.

    Args:
        message: What is wrong: the object by name and the numbers that clash.
        hint: What the reader can do next; empty when there is nothing.
    """

    exit_code = 4

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class UserError(WscError):
    """The request is at fault; repeating it unchanged cannot help."""

    exit_code = 2


class NotFoundError(UserError):
    """The request names an object that does not exist."""


class ConflictError(UserError):
    """The request clashes with the present state of the object."""


class StaleError(ConflictError):
    """The request was made for an older state of the object; look again, then repeat it."""


class UnauthenticatedError(UserError):
    """The request does not prove who sends it."""


class ForbiddenError(UserError):
    """The caller lacks the permission for the request."""


class TooLargeError(UserError):
    """A message or body is longer than its entry point reads."""


class TooSlowError(UserError):
    """A message or body did not arrive within its time."""


class ProgramError(UserError):
    """The program text cannot be imported, verified or compiled."""


class UnschedulableError(UserError):
    """The request exceeds what the whole cluster has; it would wait for ever."""


class ClusterError(WscError):
    """The cluster is at fault; the same request may succeed later."""

    exit_code = 3


class TooManyRequestsError(ClusterError):
    """A caller has as much open as one may have, or all callers together have.

    Args:
        message: See `WscError`.
        hint: See `WscError`.
        retry_seconds: After how long the same may be asked again; 0 if nobody knows.
    """

    def __init__(self, message: str, *, hint: str = "", retry_seconds: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_seconds = retry_seconds


class StaleWriterError(ClusterError):
    """Another management has taken over what this one wanted to write."""


class PodFailedError(ClusterError):
    """A pod ended or stopped answering while its job needed it."""


class StreamClosedError(ClusterError):
    """The other end of a tensor stream went away before the stream was ended."""


class StreamAbandonedError(StreamClosedError):
    """The other end closed the stream before its end, in order: the cause is known there."""


class InternalError(WscError):
    """An invariant of ours does not hold: a defect of the appliance."""
