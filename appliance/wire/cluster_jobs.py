"""Jobs and events, as ClusterManagement writes them."""

import datetime as dt
from collections.abc import Iterable

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord
from appliance.core.errors import UserError
from protos.cluster import cluster_pb2 as pb

_STATUS = {
    Phase.CREATED: pb.JOB_STATUS_CREATED,
    Phase.QUEUED: pb.JOB_STATUS_IN_QUEUE,
    Phase.SCHEDULED: pb.JOB_STATUS_SCHEDULED,
    Phase.INITIALIZING: pb.JOB_STATUS_INIT,
    Phase.RUNNING: pb.JOB_STATUS_IN_PROGRESS,
    # Not FAILING: a client that asks why its job fails goes on at once with this answer, and the
    # message is final.
    Phase.FAILING: pb.JOB_STATUS_FAILED,
    Phase.SUCCEEDED: pb.JOB_STATUS_SUCCEEDED,
    Phase.FAILED: pb.JOB_STATUS_FAILED,
    Phase.CANCELLED: pb.JOB_STATUS_CANCELLED,
}

_FINAL = {
    pb.JOB_STATUS_SUCCEEDED: Phase.SUCCEEDED,
    pb.JOB_STATUS_FAILED: Phase.FAILED,
    pb.JOB_STATUS_CANCELLED: Phase.CANCELLED,
    pb.JOB_STATUS_UNSPECIFIED: Phase.CANCELLED,
}


def status(phase: Phase) -> pb.JobStatus.ValueType:
    """Return the status by which the client knows a phase."""
    return _STATUS[phase]


def final_phase(wanted: int) -> Phase:
    """Return the final phase that a cancel request asks for; CANCELLED when it does not say.

    Raises:
        UserError: The status is not a final one.
    """
    for value, phase in _FINAL.items():
        if value == wanted:
            return phase
    raise UserError(
        f"A job cannot be ended with status {wanted}.",
        hint="Give SUCCEEDED (3), FAILED (4) or CANCELLED (5).",
    )


def job_events(events: Iterable[EventRecord]) -> list[pb.JobEvent]:
    """Return events in the client's form."""
    return [
        pb.JobEvent(
            name=event.subject,
            lastTimestamp=timestamp(event.at),
            reason=event.reason,
            message=event.message,
        )
        for event in events
    ]


def timestamp(time: dt.datetime) -> str:
    """Return a time as the client prints its own, as in `2024-05-01T12:00:00Z`."""
    return time.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
