"""The queue as a table, and the explanation of one place in it as sentences."""

import datetime as dt

from google.protobuf.timestamp_pb2 import Timestamp

from csctl.output.age import is_set, seconds_between, short_span
from csctl.output.jobs import priority_text
from csctl.output.table import NOT_APPLICABLE, Column
from protos.wsc.v1.queue_pb2 import QueueEntry


def queue_columns(now: dt.datetime) -> tuple[Column[QueueEntry], ...]:
    """Return the columns of `get queue`; times are counted from `now`."""
    return (
        Column(header="POSITION", cell=lambda entry: str(entry.position)),
        Column(header="SESSION", cell=lambda entry: entry.session),
        Column(header="NAME", cell=lambda entry: entry.job),
        Column(header="RUN", cell=lambda entry: entry.run_name or NOT_APPLICABLE),
        Column(header="TYPE", cell=lambda entry: entry.type),
        Column(header="PRIORITY", cell=lambda entry: priority_text(str(entry.priority))),
        Column(header="SYSTEMS", cell=lambda entry: str(entry.num_systems)),
        Column(header="USER", cell=lambda entry: entry.user),
        Column(header="WAITING", cell=lambda entry: _since(entry.submitted, now)),
        Column(header="STARTS-IN", cell=lambda entry: starts_in(entry, now)),
        Column(header="BLOCKED-BY", cell=lambda entry: ",".join(entry.blocking) or NOT_APPLICABLE),
        Column(header="REASON", cell=lambda entry: entry.kind),
        Column(header="BASIS", cell=lambda entry: entry.basis or NOT_APPLICABLE),
        Column(header="DETAILS", cell=lambda entry: entry.reason, is_wide=True),
        Column(header="BEHIND", cell=lambda entry: ",".join(entry.behind), is_wide=True),
    )


def starts_in(entry: QueueEntry, now: dt.datetime) -> str:
    """Return when a job is expected to start; `<=` marks what can only become earlier."""
    if not is_set(entry.expected_start):
        return "unknown"
    seconds = (entry.expected_start.ToDatetime(tzinfo=dt.UTC) - now).total_seconds()
    return f"{'<=' if entry.is_promised else '~'}{short_span(seconds)}"


def explanation(entry: QueueEntry, now: dt.datetime) -> str:
    """Return why a job waits, line by line."""
    lines = [f"Reason:    {entry.kind}: {entry.reason}"]
    lines.append(f"Position:  {entry.position}")
    if entry.blocking:
        lines.append(f"Held by:   {', '.join(entry.blocking)}")
    if entry.behind:
        lines.append(f"Behind:    {', '.join(entry.behind)}")
    if is_set(entry.expected_start):
        at = entry.expected_start.ToDatetime(tzinfo=dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        promise = ", or earlier" if entry.is_promised else ""
        lines.append(f"Starts in: {starts_in(entry, now)}, at {at}{promise}")
        lines.append(f"Basis:     {entry.basis}")
    else:
        lines.append("Starts in: unknown")
    return "\n".join(lines)


def _since(time: Timestamp, now: dt.datetime) -> str:
    return short_span(seconds_between(time, now)) if is_set(time) else NOT_APPLICABLE
