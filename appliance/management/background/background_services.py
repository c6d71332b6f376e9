"""Threads that observe jobs: they send notifications, trace, and keep logs within limits.

None of them moves a job, and nothing waits for them.
"""

from collections.abc import Callable
from pathlib import Path

from appliance.core.ids import JobId
from appliance.management.background.notification_channels import Messengers, NotifyOptions
from appliance.management.background.notifier import Notifier
from appliance.management.logs.job_traces import JobTraces
from appliance.management.logs.log_retention import LogLimits, LogRetention
from appliance.management.store.state import State
from appliance.observability.spans import Tracing
from appliance.observability.tracing import start_tracing, stop_tracing

_OWN_LOGS = ("management.log", "fork-server.log")


class BackgroundServices:
    """All of them.

    Attributes:
        job_traces: Traces jobs that have ended.

    Args:
        state: The appliance's database.
        data_dir: Holds the jobs' directories and the appliance's own logs.
        notify: How people are told.
        log_limits: How much is kept of logs.
        otlp: Where traces go; empty for nowhere.
        page_of: Address of a job's page.
    """

    def __init__(
        self,
        state: State,
        *,
        data_dir: Path,
        notify: NotifyOptions,
        log_limits: LogLimits,
        otlp: str,
        page_of: Callable[[JobId], str],
    ) -> None:
        if otlp:
            start_tracing(Tracing(endpoint=otlp, service="wsc-management", fields={}))
        self._messengers = Messengers(notify)
        self._notifier = Notifier(state, notify, self._messengers.send, page_of)
        own_logs = tuple(data_dir / name for name in _OWN_LOGS)
        self._log_retention = LogRetention(state, data_dir / "jobs", own_logs, log_limits)
        self.job_traces = JobTraces(state)

    def start(self) -> None:
        """Begin."""
        self._notifier.start()
        self._log_retention.start()

    def close(self) -> None:
        """Stop; unsent notifications stay in the database, unsent traces are sent."""
        self._log_retention.close()
        self._notifier.close()
        self._messengers.close()
        self.job_traces.close()
        stop_tracing()
