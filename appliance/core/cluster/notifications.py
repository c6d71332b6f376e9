"""Who is notified of which events of a job, and in which words. Pure.

Severities count like those of incidents: 1 is the most urgent. A target is notified of everything
whose severity is at most its threshold; the client's default, 3, is all but the start of a job.
"""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from appliance.core.cluster.jobs import Phase

DEFAULT_THRESHOLD = 3
"""What a client that names none means, as its own configuration does."""


class Channel(StrEnum):
    """How a target is notified."""

    EMAIL = "email"
    SLACK = "slack"
    """An incoming webhook that takes `{"text": ...}`, as Slack and those like it do."""
    PAGERDUTY = "pagerduty"
    WEBHOOK = "webhook"
    """Any HTTP address; it gets the whole notice as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A receiver of notifications.

    Attributes:
        channel: How.
        address: Mail address, URL or integration key; all but the first are secrets.
        threshold: Severity from which on, see the module.
    """

    channel: Channel
    address: str
    threshold: int = DEFAULT_THRESHOLD

    @property
    def shown(self) -> str:
        """The target as it may appear in events and logs: without its secret."""
        match self.channel:
            case Channel.EMAIL:
                return f"e-mail to {self.address}"
            case Channel.PAGERDUTY:
                return "PagerDuty"
            case Channel.SLACK | Channel.WEBHOOK:
                return f"{self.channel.value} at {urlsplit(self.address).hostname}"


_SEVERITIES = {
    Phase.FAILED: 1,
    Phase.QUEUED: 2,
    Phase.CANCELLED: 3,
    Phase.SUCCEEDED: 3,
    Phase.RUNNING: 4,
}
_WORDS = {
    Phase.FAILED: "has failed",
    Phase.QUEUED: "was stopped and waits again",
    Phase.CANCELLED: "was cancelled",
    Phase.SUCCEEDED: "has finished",
    Phase.RUNNING: "runs",
}


def severity_of(phase: Phase) -> int | None:
    """Return how urgent a job's entering a phase is; None if nobody is notified.

    `QUEUED` means a job that has run and was put back; nobody is told of a new job.
    """
    return _SEVERITIES.get(phase)


def wants(target: Target, phase: Phase) -> bool:
    """Whether a target is notified that a job has entered a phase."""
    severity = severity_of(phase)
    return severity is not None and severity <= target.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The text of a notification.

    Attributes:
        job: Id of the job.
        type: Its kind.
        user: Its owner.
        session: Where it belongs.
        phase: What it has entered.
        message: Why; may be empty.
        at: When, in ISO format.
        url: Its page.
    """

    job: str
    type: str
    user: str
    session: str
    phase: Phase
    message: str
    at: str
    url: str

    @property
    def subject(self) -> str:
        """The notice in one line."""
        owner = f" of {self.user}" if self.user else ""
        return f"{self.type.capitalize()} job {self.job}{owner} {_WORDS[self.phase]}"

    @property
    def text(self) -> str:
        """The notice in a few lines."""
        reason = f": {self.message}" if self.message else ""
        return f"{self.subject}{reason}\n{self.url}"
