"""`csctl attach`: follows the output of a detached run."""

from typing import Annotated

from csctl.command_line.flags import RunNameArgument
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.commands.runs.named_runs import find_job, log_job
from csctl.connection.client import ClusterClient
from csctl.connection.errors import FollowedJobError
from csctl.following import log_text
from csctl.names import parse_job_name
from csctl.output.jobs import FINAL_PHASES
from csctl.output.log_lines import readable
from csctl.watching import looks
from protos.csctl.resources_pb2 import Job, JobStatus

_LOOK_SECONDS = 0.2


def attach_job(
    invocation: Invocation,
    name: RunNameArgument,
    tail: Annotated[
        int | None,
        option("--tail", min=0, metavar="N", help="Begin with the last N lines. [default: all]"),
    ] = None,
    *,
    as_json: Annotated[
        bool, option("--json", help="Show lines of the cluster's pods as JSON, as they are kept.")
    ] = False,
) -> None:
    """Follow a run's output to its end.

    Ctrl-C detaches and leaves the run alone; `csctl cancel job` ends it. The exit code is 0 if the
    run succeeds and 1 if it does not.
    """
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        job = find_job(invocation, client, wanted, log_job)
        follow(invocation, client, job, tail=tail, is_text=not as_json)


def follow(
    invocation: Invocation,
    client: ClusterClient,
    job: str,
    *,
    tail: int | None = None,
    is_text: bool = True,
) -> None:
    """Print a run's output to its end, or until the user detaches.

    Args:
        invocation: Where to.
        client: The way to the cluster.
        job: The run.
        tail: Begin with so many last lines; None for all.
        is_text: Whether lines that our programs write as JSON become text.

    Raises:
        FollowedJobError: The run has not succeeded.
    """
    try:
        pieces = log_text(client, job, pod="", is_followed=True, tail_lines=tail)
        invocation.write_parts(readable(pieces) if is_text else pieces)
        ended = _ended_job(client, job)
    except KeyboardInterrupt:
        invocation.write(f"\nDetached; the run goes on. `csctl attach {job}` follows it again.")
        return
    if ended.status.phase != JobStatus.SUCCEEDED:
        raise FollowedJobError(ended)


def _ended_job(client: ClusterClient, name: str) -> Job:
    for job in looks(lambda: client.get("job", Job, name=name), interval_seconds=_LOOK_SECONDS):
        if job.status.phase in FINAL_PHASES:
            return job
    raise AssertionError("looking goes on")
