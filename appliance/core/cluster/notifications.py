"""Who is notified of which events of a job, and in which words. Pure.

Severities count like those of incidents: 1 is the most urgent. A target is notified of everything
whose severity is at most its threshold; the client's default, 3, is all but the start of a job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from appliance.core.cluster.jobs import Phase
from appliance.core.failure_causes import shortened
from appliance.core.visible_text import visible, visible_lines

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


class Alert(StrEnum):
    """News of a job that goes on."""

    NOT_FINITE = "NOT_FINITE"
    """An output of its program, such as the loss, has become NaN or infinite."""


News = Phase | Alert
"""What a notification is about: the phase that a job has entered, or an alert."""


def news_of(text: str) -> News:
    """Return the news that a text names; raises `ValueError` for any other text."""
    return Alert(text) if text in set(Alert) else Phase(text)


_SEVERITIES: Mapping[News, int] = {
    Phase.FAILED: 1,
    Phase.QUEUED: 2,
    Alert.NOT_FINITE: 2,
    Phase.CANCELLED: 3,
    Phase.SUCCEEDED: 3,
    Phase.RUNNING: 4,
}
_WORDS: Mapping[News, str] = {
    Phase.FAILED: "has failed",
    Phase.QUEUED: "was stopped and waits again",
    Phase.CANCELLED: "was cancelled",
    Phase.SUCCEEDED: "has finished",
    Phase.RUNNING: "runs",
    Alert.NOT_FINITE: "computes no finite numbers",
}


def severity_of(news: News) -> int | None:
    """Return how urgent news of a job is; None if nobody is notified.

    `QUEUED` means a job that has run and was put back; nobody is told of a new job.
    """
    return _SEVERITIES.get(news)


def wants(target: Target, news: News) -> bool:
    """Whether a target is notified of some news."""
    severity = severity_of(news)
    return severity is not None and severity <= target.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The text of a notification.

    Attributes:
        job: Id of the job.
        type: Its kind.
        user: Its owner.
        session: Where it belongs.
        news: What it has entered, or what is the matter with it.
        message: Why; may be empty.
        at: When, in ISO format.
        url: Its page.
        labels: Its labels, by which its owner knows it.
    """

    job: str
    type: str
    user: str
    session: str
    news: News
    message: str
    at: str
    url: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The notice in one line, with the job's labels and the cause."""
        return visible(shortened(" ".join(f"{self._headline}{self._reason}".split())))

    @property
    def text(self) -> str:
        """The notice in a few lines."""
        return visible_lines(f"{self._headline}{self._reason}\n{self.url}")

    @property
    def phase(self) -> Phase:
        """The phase that the job is in: an alert tells of one that runs."""
        return Phase.RUNNING if isinstance(self.news, Alert) else self.news

    @property
    def _headline(self) -> str:
        owner = f" of {self.user}" if self.user else ""
        pairs = ", ".join(f"{key}={self.labels[key]}" for key in sorted(self.labels))
        known = f" ({shortened(pairs)})" if pairs else ""
        return f"{self.type.capitalize()} job {self.job}{known}{owner} {_WORDS[self.news]}"

    @property
    def _reason(self) -> str:
        return f": {self.message}" if self.message else ""
