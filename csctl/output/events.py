"""The events of a job, as a table."""

import datetime as dt

from csctl.output.age import seconds_between, short_span
from csctl.output.table import NOT_APPLICABLE, Column
from protos.csctl.api_pb2 import SystemEvent
from protos.wsc.v1.events_pb2 import JobEvent


def event_columns(now: dt.datetime) -> tuple[Column[JobEvent], ...]:
    """Return the columns of `job events`; ages count up to `now`."""
    return (
        Column(header="AGE", cell=lambda event: short_span(seconds_between(event.time, now))),
        Column(header="TYPE", cell=lambda event: "Warning" if event.is_warning else "Normal"),
        Column(header="REASON", cell=lambda event: event.reason),
        Column(header="OBJECT", cell=lambda event: event.subject),
        Column(header="MESSAGE", cell=lambda event: event.message),
    )


def system_event_columns(now: dt.datetime) -> tuple[Column[SystemEvent], ...]:
    """Return the columns of `cluster events`; ages count up to `now`."""
    return (
        Column(header="AGE", cell=lambda event: short_span(seconds_between(event.timestamp, now))),
        Column(header="SYSTEM", cell=lambda event: event.system_name),
        Column(header="TYPE", cell=_type),
        Column(header="DETAILS", cell=_details),
        Column(header="NOTE", cell=lambda event: event.note or NOT_APPLICABLE),
    )


def _type(event: SystemEvent) -> str:
    return "stall" if event.HasField("stall_event") else "state-change"


def _details(event: SystemEvent) -> str:
    if event.HasField("stall_event"):
        stall = event.stall_event
        return " ".join(filter(None, (stall.job_name, stall.model))) or NOT_APPLICABLE
    change = event.state_change_event
    port = f"port {change.port}" if change.port else ""
    by = f"by {change.caller}" if change.caller else ""
    return " ".join(filter(None, (change.state, port, by)))
