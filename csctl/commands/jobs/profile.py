"""`csctl profile`: where a job's simulated time goes."""

import json
from pathlib import Path
from typing import Annotated

from appliance.core.errors import UserError
from csctl.command_line.flags import JobNameArgument, OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.commands.runs.named_runs import find_job, training_job
from csctl.names import parse_job_name
from csctl.output.documents.output_formats import OutputFormat, format_document
from csctl.output.profiles import PROFILE_COLUMNS, chrome_trace, modules, profile_document
from csctl.output.table import render
from protos.appliance.appliance_service_pb2 import FinalizeResponse
from protos.wsc.v1.events_pb2 import GetSessionProfileRequest
from protos.wsc.v1.events_pb2_grpc import EventsStub

group = new_group("Show where time goes.")


@command(group, "job", example="csctl profile job wsjob-0001 --top 5 --trace step.json")
def profile_job(
    invocation: Invocation,
    name: JobNameArgument,
    *,
    top: Annotated[
        int, option("--top", metavar="N", min=1, help="Show the N most expensive modules.")
    ] = 10,
    trace: Annotated[
        Path | None,
        option(
            "--trace",
            metavar="FILE.json",
            show_default=False,
            help="Write a Chrome trace of one step here; Perfetto opens it.",
        ),
    ] = None,
    session: Annotated[
        int | None,
        option(
            "--session",
            min=1,
            metavar="N",
            show_default=False,
            help="Of the N-th session that the job has run. [default: the last one]",
        ),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the modules that take most of a job's simulated step.

    The time is what a real system would take, forward and backward apart; percentages are of the
    whole step.
    """
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        job = find_job(invocation, client, wanted, training_job)
        if session is None:
            found = client.get("profile", FinalizeResponse, name=job)
        else:
            request = GetSessionProfileRequest(job=job, session=session)
            found = client.call(EventsStub(client.channel).GetSessionProfile, request)
    rows = modules(found.trace_events)
    if trace is not None:
        try:
            trace.write_text(json.dumps(chrome_trace(found.trace_events)))
        except OSError as error:
            raise UserError(f"{trace} cannot be written: {error.strerror}.") from error
    invocation.write(
        format_document(
            profile_document(rows[:top]),
            text=lambda: render(PROFILE_COLUMNS, rows[:top]),
            output=output,
        )
    )
