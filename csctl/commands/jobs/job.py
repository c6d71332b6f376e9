"""`csctl job`: all actions on jobs in one place."""

from functools import partial
from typing import Annotated

from csctl.command_line.flags import JobNameArgument, OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument
from csctl.commands.cluster.cluster import show_job_topology
from csctl.commands.jobs.jobs import list_jobs
from csctl.commands.runs.named_runs import find_job
from csctl.names import parse_job_name
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.events import event_columns
from csctl.output.table import render
from csctl.priorities import parse_priority
from protos.wsc.v1.events_pb2 import ListJobEventsRequest
from protos.wsc.v1.events_pb2_grpc import EventsStub
from protos.wsc.v1.queue_pb2 import HoldJobRequest, ReleaseJobRequest
from protos.wsc.v1.queue_pb2_grpc import QueueStub

group = new_group("Job management commands.")

command(group, "topology", example="csctl job topology wsjob-0001")(show_job_topology)
command(group, "list", example="csctl job list -a")(list_jobs)


@command(group, "events", example="csctl job events wsjob-0001")
def list_events(
    invocation: Invocation,
    name: JobNameArgument,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List what has happened to a job, oldest first."""
    job = parse_job_name(name)
    with invocation.connect(job.session) as client:
        request = ListJobEventsRequest(job=find_job(invocation, client, job))
        events = client.call(EventsStub(client.channel).ListJobEvents, request).events
    table = partial(render, event_columns(invocation.now()), events)
    invocation.show_list(events, table=table, output=output)


@command(group, "set-priority", example="csctl job set-priority wsjob-0001 p1")
def set_priority(
    invocation: Invocation,
    name: JobNameArgument,
    priority: Annotated[
        str,
        argument("PRIORITY", help="p1, p2 or p3, or a value from 0 to 399."),
    ],
) -> None:
    """Change the priority of a job's workflow.

    All of the workflow's waiting and later jobs change with it; a finished job cannot change.
    """
    job = parse_job_name(name)
    wanted = parse_priority(priority)
    with invocation.connect(job.session) as client:
        found = find_job(invocation, client, job)
        message = client.set_priority(found, wanted)
    invocation.write(message or f"successfully updated {found} job priority to {wanted}")


@command(group, "hold", example="csctl job hold wsjob-0001")
def hold_job(invocation: Invocation, name: JobNameArgument) -> None:
    """Keep a waiting job from starting until it is released.

    It keeps its place in the queue; others may start before it.
    """
    job = parse_job_name(name)
    with invocation.connect(job.session) as client:
        found = find_job(invocation, client, job)
        client.call(QueueStub(client.channel).HoldJob, HoldJobRequest(job=found))
    invocation.write(f"job/{found} is held; `csctl job release {found}` lets it start")


@command(group, "release", example="csctl job release wsjob-0001")
def release_job(invocation: Invocation, name: JobNameArgument) -> None:
    """Let a held job start again.

    What an administrator holds, administrators release.
    """
    job = parse_job_name(name)
    with invocation.connect(job.session) as client:
        found = find_job(invocation, client, job)
        client.call(QueueStub(client.channel).ReleaseJob, ReleaseJobRequest(job=found))
    invocation.write(f"job/{found} is released")
