"""Failure reports of a job, and which of them names the cause.

When a pod dies its peers fail too, as their streams break, and often they report first. So the job
collects reports for a moment and then chooses one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from appliance.core.errors import PodFailedError, UserError, WscError
from appliance.core.ids import Role


class Blame(IntEnum):
    """How likely a report names the cause; the lowest value wins."""

    USER = 0
    """The user's own code or data."""
    ENDED = 1
    """Management says how a pod's process ended."""
    LOST = 2
    """A pod's process is gone, or it stopped answering."""
    REPORTED = 3
    """A pod says that it cannot go on; may be a consequence of another's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One reason why the job cannot go on.

    Attributes:
        blame: What kind of reason.
        message: A sentence for the user.
        detail: Traceback or log excerpt; may be empty.
        role: Role of the pod concerned.
        index: Its number among the pods of that role.
        is_stall: Whether nothing is broken, but the job does not move.
    """

    blame: Blame
    message: str
    detail: str = ""
    role: Role = Role.COORDINATOR
    index: int = 0
    is_stall: bool = False

    @property
    def text(self) -> str:
        """What the user reads: the sentence, then the details."""
        return f"{self.message}\n{self.detail}" if self.detail else self.message

    def error(self) -> WscError:
        """Return the error that calls of the client end with."""
        if self.is_stall:
            return JobStalledError(self.text)
        kind = UserFailedError if self.blame is Blame.USER else JobFailedError
        return kind(self.text)


class JobFailedError(PodFailedError):
    """The job has failed before or while this call was made."""


class JobStalledError(JobFailedError):
    """The job has failed because it did not move for too long."""


class UserFailedError(UserError):
    """The job has failed through the user's own code or data."""


def cause(reports: Sequence[Failure]) -> Failure:
    """Return the report that names the cause.

    Args:
        reports: What was reported, in order of arrival; not empty.
    """
    return min(reports, key=lambda report: report.blame)
