"""`csctl get queue`, `explain job` and `plan`: what waits, why, and for how long."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from appliance.core.errors import UserError
from csctl.command_line.flags import JobNameArgument, OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.commands.runs.named_runs import find_job
from csctl.names import parse_job_name
from csctl.output.documents.output_formats import OutputFormat, Table
from csctl.output.queue import explanation, queue_columns
from csctl.output.table import render
from csctl.priorities import parse_priority
from csctl.time_limits import parse_time_limit
from protos.wsc.v1.queue_pb2 import (
    ExplainJobRequest,
    ListQueueRequest,
    QueueEntry,
    WouldStartReply,
    WouldStartRequest,
)
from protos.wsc.v1.queue_pb2_grpc import QueueStub

group = new_group("Say why something is as it is.")


def list_queue(
    invocation: Invocation,
    *,
    all_namespaces: Annotated[
        bool, option("-A", "--all-namespaces", help="Jobs of all sessions.")
    ] = False,
    limit: Annotated[
        int, option("--limit", min=1, max=1000, metavar="N", help="At most N jobs.")
    ] = 100,
    watch: Annotated[
        bool, option("-w", "--watch", help="Go on: show each one again when it changes.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List waiting jobs in the order in which they are served.

    STARTS-IN is an estimate (~) or, where what the job waits for has a time limit, an upper bound
    (<=) as long as nothing fails and nobody of higher priority comes. BASIS says what it rests on:
    the steps of the job that has to end, else how long its like took, else its limit.
    """
    with invocation.connect() as client:
        stub = QueueStub(client.channel)
        request = ListQueueRequest(session="" if all_namespaces else client.namespace, limit=limit)

        def fetch() -> Sequence[QueueEntry]:
            return client.call(stub.ListQueue, request).entries

        def table(entries: Sequence[QueueEntry]) -> Table:
            return partial(render, queue_columns(invocation.now()), entries)

        if watch:
            invocation.watch_list(fetch, table=table, output=output)
        reply = client.call(stub.ListQueue, request)
    invocation.show_list(reply.entries, table=table(reply.entries), output=output)
    if reply.total > len(reply.entries):
        invocation.note(f"{len(reply.entries)} of {reply.total:,} waiting jobs are shown.")


@command(group, "job", example="csctl explain job wsjob-0001")
def explain_job(
    invocation: Invocation,
    name: JobNameArgument,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Say why a job waits, what blocks it, and when it is expected to start."""
    job = parse_job_name(name)
    with invocation.connect(job.session) as client:
        request = ExplainJobRequest(job=find_job(invocation, client, job))
        entry = client.call(QueueStub(client.channel).ExplainJob, request)

    def table(*, wide: bool, coloured: bool) -> str:
        return explanation(entry, invocation.now())

    invocation.show(entry, table=table, output=output)


def plan_job(
    invocation: Invocation,
    *,
    systems: Annotated[
        int, option("--systems", min=0, metavar="N", help="Systems; 0 for a compile job.")
    ] = 1,
    priority: Annotated[
        str, option("--priority", metavar="P", help="p1, p2 or p3, or a value from 0 to 399.")
    ] = "",
    time_limit: Annotated[
        str,
        option(
            "--time-limit",
            metavar="TIME",
            help="The job would end after TIME: 90m, 1h30m, or seconds.",
        ),
    ] = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Say whether a job would start now, else when; nothing is queued or run.

    The exit code is 0 if it would start, now or later, and 2 if it never could.
    """
    with invocation.connect() as client:
        request = WouldStartRequest(
            num_systems=systems,
            session=client.namespace,
            priority=parse_priority(priority) if priority else "",
            limit_seconds=parse_time_limit(time_limit) if time_limit else 0,
        )
        reply = client.call(QueueStub(client.channel).WouldStart, request)
    if reply.refusal:
        raise UserError(f"This job could never start: {reply.refusal}")

    def table(*, wide: bool, coloured: bool) -> str:
        return _plan_text(reply, invocation)

    invocation.show(reply, table=table, output=output)


def _plan_text(reply: WouldStartReply, invocation: Invocation) -> str:
    if reply.is_now:
        on = f" on {', '.join(reply.systems)}" if reply.systems else ""
        return f"It would start now{on}."
    return f"It would wait.\n{explanation(reply.entry, invocation.now())}"
