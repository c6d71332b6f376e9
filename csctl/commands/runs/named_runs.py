"""Runs as commands take them: by id, by name, or by one of their jobs."""

from appliance.core.ids import JOB_PREFIX
from csctl.command_line.invocation import Invocation
from csctl.connection.client import ClusterClient
from csctl.names import JobName
from protos.wsc.v1.runs_pb2 import GetRunRequest, Run
from protos.wsc.v1.runs_pb2_grpc import RunsStub


def load_run(invocation: Invocation, client: ClusterClient, wanted: JobName) -> Run:
    """Return the run that an id or a name means.

    A name is looked for in the session that commands work in, unless another one is named; an id
    in all of them.

    Raises:
        UserError: There is none, or several unfinished ones have the name.
    """
    request = GetRunRequest(
        name=wanted.name,
        session=wanted.session or invocation.flags.namespace or "",
        session_of_names=client.namespace,
    )
    return client.call(RunsStub(client.channel).GetRun, request)


def job_of_run(invocation: Invocation, client: ClusterClient, wanted: JobName) -> str:
    """Return the job whose log is meant: the one of that name, else that of the run."""
    if wanted.name.startswith(JOB_PREFIX):
        return wanted.name
    return load_run(invocation, client, wanted).log_job
