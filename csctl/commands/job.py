"""`csctl job`: the verbs of jobs in one place."""

from typing import Annotated

from csctl.commands.jobs import list_jobs
from csctl.flags import JobNameArgument, command, new_group
from csctl.invocation import Invocation
from csctl.names import parse_job_name
from csctl.params import argument
from csctl.priorities import parse_priority

group = new_group("Job management commands.")

command(group, "list", example="csctl job list -a")(list_jobs)


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
        message = client.set_priority(job.name, wanted)
    invocation.write(message or f"successfully updated {job.name} job priority to {wanted}")
