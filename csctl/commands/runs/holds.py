"""`csctl hold`, `resume` and `requeue`: stop a detached run for a while, or start it anew."""

from typing import Annotated

from appliance.core.errors import UserError
from csctl.command_line.completion import run_names
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument
from csctl.commands.runs.named_runs import ENDED, load_run
from csctl.names import parse_job_name
from protos.wsc.v1.queue_pb2 import HoldJobRequest, ReleaseJobRequest, RequeueJobRequest
from protos.wsc.v1.queue_pb2_grpc import QueueStub
from protos.wsc.v1.runs_pb2 import Run

RunArgument = Annotated[
    str,
    argument("NAME", help="The run: its id, its name, or one of its jobs.", complete=run_names),
]


def hold_run(invocation: Invocation, name: RunArgument) -> None:
    """Stop a detached run, with its script's jobs, until `csctl resume`.

    Its script is started again then and has to load its last checkpoint; WSC_RESTART_COUNT tells it
    that it may. A run that has not started keeps its place and does not start.
    """
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        run = _stoppable(load_run(invocation, client, wanted), "hold")
        request = HoldJobRequest(job=run.log_job, stops=True)
        client.call(QueueStub(client.channel).HoldJob, request)
    invocation.write(f"run/{run.run_id} is held; `csctl resume {name}` lets it start")


def resume_run(invocation: Invocation, name: RunArgument) -> None:
    """Let a held run start again.

    What an administrator holds, administrators resume.
    """
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        run = _stoppable(load_run(invocation, client, wanted), "resume")
        client.call(QueueStub(client.channel).ReleaseJob, ReleaseJobRequest(job=run.log_job))
    invocation.write(f"run/{run.run_id} is resumed")


def requeue_run(invocation: Invocation, name: RunArgument) -> None:
    """Stop a detached run, with its script's jobs, and queue it again.

    Its script begins anew and has to load its last checkpoint; that is no restart of its policy's.
    """
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        run = _stoppable(load_run(invocation, client, wanted), "queue again")
        client.call(QueueStub(client.channel).RequeueJob, RequeueJobRequest(job=run.log_job))
    invocation.write(f"run/{run.run_id} is queued again")


def _stoppable(run: Run, change: str) -> Run:
    """Return a run whose script the appliance can start again.

    Args:
        change: What is to be done to it, for the refusal.

    Raises:
        UserError: It has ended, or its script runs in a terminal.
    """
    if run.phase in ENDED:
        raise UserError(
            f"Run {run.run_id} is {run.phase}; there is nothing to {change}.",
            hint="Submit it again.",
        )
    if run.kind == "attached":
        raise UserError(
            f"Run {run.run_id} is of a script in a terminal, which nobody here can start again.",
            hint="`csctl job hold` holds one of its waiting jobs; or run it by `csctl submit`.",
        )
    return run
