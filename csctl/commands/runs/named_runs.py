"""Runs and jobs as commands take them: by id, by name, or with their session before either.

Every command reads a name by `find_job` or `load_run`, so that a name means the same everywhere. A
command on one job takes a run's name as well, and then means the job of the run that
docs/csctl.md says: mostly the one that the run is at.
"""

from collections.abc import Callable
from typing import TypeAlias

from appliance.core.errors import NotFoundError, UserError
from appliance.core.ids import ARRAY_PREFIX, JOB_PREFIX
from csctl.command_line.invocation import Invocation
from csctl.connection.client import ClusterClient
from csctl.names import JobName
from protos.wsc.v1.runs_pb2 import GetRunRequest, Run
from protos.wsc.v1.runs_pb2_grpc import RunsStub

JobOfRun: TypeAlias = Callable[[Run], str]
"""Chooses the job that a run's name means."""

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
"""Phases of jobs and runs that are over."""

_EXECUTE = "execute"


def current_job(run: Run) -> str:
    """Return the job that a run is at: the newest that has not ended, else the newest."""
    live = [each.job for each in run.jobs if each.phase not in ENDED]
    return (live or [each.job for each in run.jobs])[-1]


def first_job(run: Run) -> str:
    """Return the job whose labels are the run's."""
    return run.jobs[0].job


def training_job(run: Run) -> str:
    """Return the newest job of a run that trains or evaluates; raises `UserError` without one."""
    trains = [each.job for each in run.jobs if each.type == _EXECUTE]
    if not trains:
        raise UserError(
            f"Run {run.run_id} has no execute job.", hint=f"`csctl get run {run.run_id}` lists its."
        )
    return trains[-1]


def log_job(run: Run) -> str:
    """Return the job whose main log is the run's: the script's, else of what ran last."""
    return run.log_job


def load_run(invocation: Invocation, client: ClusterClient, wanted: JobName) -> Run:
    """Return the run that an id or a name means.

    A name is looked for in the session that commands work in, unless another one is named; an id
    in all of them.

    Raises:
        NotFoundError: There is none.
        UserError: Several unfinished ones have the name, or it is an array's.
    """
    if wanted.name.startswith(ARRAY_PREFIX):
        raise UserError(
            f"{wanted.name} is an array of runs; name one of them.",
            hint=f"`csctl get runs -a -l array={wanted.name}` lists them.",
        )
    request = GetRunRequest(
        name=wanted.name,
        session=wanted.session or invocation.flags.namespace or "",
        session_of_names=client.namespace,
    )
    return client.call(RunsStub(client.channel).GetRun, request)


def load_run_or_job(invocation: Invocation, client: ClusterClient, wanted: JobName) -> Run:
    """Return the run that a name means where a job's could stand, too, or the job's run.

    Raises:
        NotFoundError: There is neither a job nor a run of that name.
        UserError: As `load_run`.
    """
    try:
        return load_run(invocation, client, wanted)
    except NotFoundError as error:
        said = str(error).replace("There is no run ", "There is no job or run ", 1)
        raise NotFoundError(said) from None


def find_job(
    invocation: Invocation,
    client: ClusterClient,
    wanted: JobName,
    of_run: JobOfRun = current_job,
) -> str:
    """Return the job that is meant: the one of that id, else one of the run of that name.

    Args:
        of_run: Chooses among a run's jobs.

    Raises:
        NotFoundError: There is neither.
        UserError: The name means several runs, or the run has no such job.
    """
    if wanted.name.startswith(JOB_PREFIX):
        return wanted.name  # the cluster says if there is none
    run = load_run_or_job(invocation, client, wanted)
    if any(each.job == wanted.name for each in run.jobs):
        return wanted.name
    return of_run(run)
