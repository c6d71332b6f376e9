"""Makes the spans of a job and its phases once the job has ended."""

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, JobRecord
from appliance.core.ids import JobId
from appliance.management.store.state import State
from appliance.observability import tracing
from appliance.observability.spans import PastSpan

logger = logging.getLogger(__name__)

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class JobTraces:
    """Exports spans of ended jobs, in a thread of its own; does nothing while tracing is off.

    Args:
        state: Where jobs and events are.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job-traces")

    def job_ended(self, job: JobId) -> None:
        """Take note that a job has ended."""
        if tracing.is_tracing():
            self._pool.submit(self._tell, job)

    def close(self) -> None:
        """Export the pending spans, and stop."""
        self._pool.shutdown(wait=True)

    def _tell(self, job_id: JobId) -> None:
        try:
            job = self._state.jobs.find(job_id)
            if job is None or job.type is JobType.DRIVER:
                return
            request = self._state.requests.load(job_id)
            if not request.trace:  # submitted while tracing was off
                return
            places = {"own": request.trace, "parent": request.trace_parent}
            for past in spans_of(job, self._state.jobs.events(job_id), **places):
                tracing.record(past)
        except Exception:  # outermost frame of a thread: a trace is not worth a job
            logger.exception("A job was not traced", extra={"job": job_id})


def spans_of(
    job: JobRecord, events: Sequence[EventRecord], *, own: str, parent: str
) -> Iterator[PastSpan]:
    """Yield the span of a job that has ended, then those of the phases it went through.

    Args:
        events: What happened to it, oldest first.
        own: Its place in a trace.
        parent: That of what submitted it; may be empty.
    """
    fields = {
        "wsc.job": job.id,
        "wsc.type": job.type.value,
        "wsc.workflow": job.workflow,
        "wsc.session": job.session,
        "wsc.user": job.user.name,
        "wsc.phase": job.phase.value,
        "wsc.systems": " ".join(job.systems),
    }
    yield PastSpan(
        name=f"job {job.type.value}",
        own=own,
        parent=parent,
        start_ns=_nanoseconds(job.created_at),
        end_ns=_nanoseconds(job.ended_at or job.created_at),
        fields=fields,
        error=job.message or "failed" if job.phase is Phase.FAILED else "",
    )
    entered = [event for event in events if event.phase is not None]
    for event, following in pairwise(entered):
        yield PastSpan(
            name=f"phase {event.phase}",
            parent=own,
            start_ns=_nanoseconds(event.at),
            end_ns=_nanoseconds(following.at),
            fields={"wsc.job": job.id, "wsc.reason": following.message},
        )


def _nanoseconds(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000
