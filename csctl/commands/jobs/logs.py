"""`csctl logs`: the output of a pod."""

from typing import Annotated

from csctl.command_line.flags import RunNameArgument
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.commands.runs.named_runs import find_job, log_job
from csctl.following import log_text
from csctl.names import parse_job_name
from csctl.output.log_lines import readable
from protos.wsc.v1.logs_pb2 import ListLogsRequest
from protos.wsc.v1.logs_pb2_grpc import LogsStub


def show_logs(
    invocation: Invocation,
    name: RunNameArgument,
    *,
    pod: Annotated[
        str,
        option(
            "--pod",
            metavar="POD",
            help="Whose log, as in chief-0. [default: a driver's script, else the coordinator]",
        ),
    ] = "",
    follow: Annotated[bool, option("-f", "--follow", help="Go on until the job ends.")] = False,
    tail: Annotated[
        int | None, option("--tail", min=0, metavar="N", help="Only the last N lines.")
    ] = None,
    as_json: Annotated[
        bool, option("--json", help="Show lines of the cluster's pods as JSON, as they are kept.")
    ] = False,
    list_pods: Annotated[bool, option("--list", help="Only name the pods that have logs.")] = False,
) -> None:
    """Show what a run's script, or a pod of a job, has printed; kept after the job has ended."""
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        job = find_job(invocation, client, wanted, log_job)
        if list_pods:
            stub = LogsStub(client.channel)
            for each in client.call(stub.ListLogs, ListLogsRequest(job=job)).logs:
                invocation.write(each.pod)
            return
        pieces = log_text(client, job, pod=pod, is_followed=follow, tail_lines=tail)
        invocation.write_parts(pieces if as_json else readable(pieces))
