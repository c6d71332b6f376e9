"""`csctl cancel`: end a job and release its resources."""

from csctl.command_line.flags import JobNameArgument, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.names import parse_job_name

group = new_group("Cancel job.")


@command(group, "job", aliases=("jobs",), example="csctl cancel job wsjob-0001")
def cancel_job(
    invocation: Invocation,
    name: JobNameArgument,
) -> None:
    """Cancel a job; its systems and nodes are released."""
    job = parse_job_name(name)
    with invocation.connect(job.session) as client:
        message = client.cancel_job(job.name)
    invocation.write(message or "Job canceled successfully")
