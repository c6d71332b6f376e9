"""What has happened to a job, as a table."""

import datetime as dt

from csctl.output.age import seconds_between, short_span
from csctl.output.table import Column
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
