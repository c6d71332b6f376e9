"""`csctl report`: who has had how much system time."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.cluster.jobs import Phase
from appliance.core.errors import UserError
from appliance.core.quantities import duration
from appliance.core.queries.usage import UsageLine, as_csv, check_groupings
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.table import Column, render
from csctl.time_limits import parse_time_limit
from protos.wsc.v1 import queue_pb2 as pb
from protos.wsc.v1.queue_pb2_grpc import QueueStub


class ReportFormat(StrEnum):
    """Value of `-o`."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    YAML = "yaml"


def report_use(
    invocation: Invocation,
    *,
    by: Annotated[
        list[str] | None,
        option(
            "--by",
            metavar="WHAT",
            help="user, session, month (UTC) or label=KEY; may be repeated. [default: user]",
        ),
    ] = None,
    since: Annotated[
        str,
        option(
            "--since",
            metavar="TIME",
            help="A date, 2026-01-31 or 2026-01-31T08:00 (UTC), or so long ago: 7d, 12h. "
            "[default: 30d before the end]",
        ),
    ] = "",
    until: Annotated[
        str, option("--until", metavar="TIME", help="The end, likewise. [default: now]")
    ] = "",
    output: Annotated[
        ReportFormat, option("-o", "--output", help="How to show it.")
    ] = ReportFormat.TABLE,
) -> None:
    """Report who has had how much system time.

    System time is the number of systems of a job times how long it held them since its last start,
    within the span asked for. Jobs that go on count until now.
    """
    groupings = list(check_groupings(by or ["user"]))
    now = invocation.now()
    request = pb.ReportUseRequest(by=groupings)
    if since:
        request.since.FromDatetime(parse_time(since, now))
    if until:
        request.until.FromDatetime(parse_time(until, now))
    with invocation.connect() as client:
        reply = client.call(QueueStub(client.channel).ReportUse, request)
    if output is ReportFormat.CSV:
        invocation.write_parts([as_csv(map(_line_of, reply.lines), groupings)])
        return

    def table(*, wide: bool, coloured: bool) -> str:
        return _table(reply, groupings)

    invocation.show(reply, table=table, output=OutputFormat(output.value))


def parse_time(text: str, now: dt.datetime) -> dt.datetime:
    """Return the time that a date, a date with a time of day, or a span before now is; in UTC.

    Raises:
        UserError: It is not understood.
    """
    try:
        if text[:1].isdigit() and "-" not in text:
            return now - dt.timedelta(seconds=parse_time_limit(text))
        at = dt.datetime.fromisoformat(text)
    except (ValueError, OverflowError, UserError) as error:
        raise UserError(
            f"Time '{text}' is not understood.", hint="Write 2026-01-31, or 7d for a week ago."
        ) from error
    return at if at.tzinfo else at.replace(tzinfo=dt.UTC)


def _table(reply: pb.ReportUseReply, groupings: list[str]) -> str:
    total = sum(line.system_seconds for line in reply.lines)
    keys = [_key_column(name, at) for at, name in enumerate(groupings)]
    columns = (*keys, *_COLUMNS, _share_column(total))
    span = f"From {_day(reply.since)} to {_day(reply.until)}: {duration(total)} of system time."
    return f"{span}\n{render(columns, reply.lines)}"


def _key_column(name: str, at: int) -> Column[pb.UsageLine]:
    return Column(header=name.upper(), cell=lambda line: line.keys[at] or "-")


def _share_column(total: float) -> Column[pb.UsageLine]:
    return Column(
        header="SHARE",
        cell=lambda line: f"{100 * line.system_seconds / total:.1f}%" if total else "-",
    )


_COLUMNS: tuple[Column[pb.UsageLine], ...] = (
    Column(header="JOBS", cell=lambda line: str(line.num_jobs)),
    Column(header=Phase.SUCCEEDED.value, cell=lambda line: str(line.num_succeeded)),
    Column(header=Phase.FAILED.value, cell=lambda line: str(line.num_failed)),
    Column(header=Phase.CANCELLED.value, cell=lambda line: str(line.num_cancelled)),
    Column(header="SYSTEM-TIME", cell=lambda line: duration(line.system_seconds)),
)


def _line_of(line: pb.UsageLine) -> UsageLine:
    return UsageLine(
        keys=tuple(line.keys),
        num_jobs=line.num_jobs,
        num_succeeded=line.num_succeeded,
        num_failed=line.num_failed,
        num_cancelled=line.num_cancelled,
        system_seconds=line.system_seconds,
    )


def _day(time: Timestamp) -> str:
    return time.ToDatetime(tzinfo=dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
