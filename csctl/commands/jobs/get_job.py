"""`csctl get job`."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated

from appliance.core.errors import UserError
from csctl.command_line.completion import job_names
from csctl.command_line.flags import OutputOption
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.commands.jobs.jobs import list_jobs
from csctl.commands.runs.named_runs import find_job, training_job
from csctl.connection.errors import FollowedJobError
from csctl.labels import SELECTORS
from csctl.names import JobName, parse_job_name
from csctl.output.documents.output_formats import Output, OutputFormat
from csctl.output.jobs import (
    CLIENT_RELEASE,
    DETAIL,
    FAILURE_COLUMNS,
    FINAL_PHASES,
    NAMESPACE,
    POD_COLUMNS,
    job_columns,
    pods_of,
    reason,
)
from csctl.output.runs.progress import progress_line
from csctl.output.runs.sessions import TIME_COLUMNS, session_columns, system_times
from csctl.output.table import render
from csctl.watching import Changes, looks
from protos.csctl.api_pb2 import GetOptions
from protos.csctl.resources_pb2 import Job, JobStatus
from protos.wsc.v1.events_pb2 import ListRunSessionsRequest, RunSession
from protos.wsc.v1.events_pb2_grpc import EventsStub


def get_job(
    invocation: Invocation,
    names: Annotated[
        list[str] | None,
        argument(
            "[NAME]...",
            help="Jobs: wsjob-..., or their runs: wflow-..., or the runs' names; each also as "
            "<session>/NAME. None lists jobs, as `get jobs` does.",
            complete=job_names,
        ),
    ] = None,
    *,
    all_states: Annotated[
        bool, option("-a", "--all-states", help="Without a name: finished jobs, too.")
    ] = False,
    labels: Annotated[
        list[str] | None,
        option(
            *("-l", "--label", "--labels"),
            metavar="SELECTOR",
            help=f"Without a name: only jobs with such labels: {SELECTORS}.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        option(
            "-w", "--watch", help="Show it again at each change, until it ends; 1 if it failed."
        ),
    ] = False,
    session: Annotated[
        int | None,
        option(
            "--session",
            min=1,
            metavar="N",
            help="Show the readings of the N-th session that the job has run: training, then an "
            "evaluation are two.",
        ),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show a job with its pods, role by role, its times and what masks of its weights save.

    Several jobs are shown one after the other.
    """
    if not names:
        list_jobs(invocation, all_states=all_states, labels=labels, watch=watch, output=output)
        return
    if all_states or labels:
        raise UserError("-a and -l find jobs; a job that is named needs neither.")
    if len(names) > 1:
        if watch or session is not None:
            raise UserError("Only one job can be shown with --watch or --session.")
        _show_several(invocation, [parse_job_name(name) for name in names], output)
        return
    wanted = parse_job_name(names[0])
    if session is not None:
        _show_session(invocation, wanted, session, output)
        return
    options = GetOptions(show_pending_status=True)
    changes = Changes()
    with invocation.connect(wanted.session) as client:
        found = find_job(invocation, client, wanted)
        for job in looks(lambda: client.get("job", Job, name=found, options=options)):
            if changes([job]):
                table = partial(_job_tables, job, invocation.now())
                invocation.show(job, table=table, output=output)
            if not watch or job.status.phase in FINAL_PHASES:
                break
    if watch and job.status.phase != JobStatus.SUCCEEDED:
        raise FollowedJobError(job)


def _show_several(invocation: Invocation, names: Sequence[JobName], output: Output) -> None:
    options = GetOptions(show_pending_status=True)
    jobs = []
    for name in names:
        with invocation.connect(name.session) as client:
            found = find_job(invocation, client, name)
            jobs.append(client.get("job", Job, name=found, options=options))

    def table(*, wide: bool, coloured: bool) -> str:
        now = invocation.now()
        return "\n\n".join(_job_tables(job, now, wide=wide, coloured=coloured) for job in jobs)

    invocation.show_list(jobs, table=table, output=output)


def _show_session(invocation: Invocation, name: JobName, number: int, output: Output) -> None:
    with invocation.connect(name.session) as client:
        job = find_job(invocation, client, name, training_job)
        request = ListRunSessionsRequest(job=job, session=number)
        (found,) = client.call(EventsStub(client.channel).ListRunSessions, request).sessions
    table = partial(_session_tables, found, invocation.now())
    invocation.show(found, table=table, output=output)


def _session_tables(session: RunSession, now: dt.datetime, *, wide: bool, coloured: bool) -> str:
    parts = [render(session_columns(now), [session], wide=wide, coloured=coloured)]
    if times := tuple(system_times(session.readings)):
        parts.append(render(TIME_COLUMNS, times, wide=wide, coloured=coloured))
    if session.masked_weights:
        parts.append(f"Masked weights: {session.masked_weights}")
    return "\n\n".join(parts)


def _job_tables(job: Job, now: dt.datetime, *, wide: bool, coloured: bool) -> str:
    """Return the job's row, its pods, its failures and the reason for its phase."""
    parts = [render(job_columns(now), [job], wide=wide, coloured=coloured)]
    pods = tuple(pods_of(job))
    if pods:
        parts.append(render(POD_COLUMNS, pods, wide=wide, coloured=coloured))
    parts += _notes(job.meta.properties)
    times = tuple(system_times(job.meta.properties))
    if times:
        parts.append(render(TIME_COLUMNS, times, wide=wide, coloured=coloured))
    if masked := job.meta.properties.get("masked_weights_summary"):
        parts.append(f"Masked weights: {masked}")
    if job.status.error_replicas:
        parts.append(render(FAILURE_COLUMNS, job.status.error_replicas, wide=wide))
    if reason(job):
        parts.append(f"Reason: {reason(job)}")
    if detail := job.meta.properties.get(DETAIL):
        parts.append(detail)
    return "\n\n".join(parts)


def _notes(properties: Mapping[str, str]) -> Iterator[str]:
    for title, name in (("Namespace", NAMESPACE), ("Client", CLIENT_RELEASE)):
        if value := properties.get(name):
            yield f"{title}: {value}"
    if progress := progress_line(properties):
        yield progress
    if trouble := properties.get("not_finite"):
        yield f"Warning: {trouble}"
