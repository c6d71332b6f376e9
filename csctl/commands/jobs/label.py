"""`csctl label`: add, change and remove labels."""

from typing import Annotated

from csctl.command_line.flags import JobNameArgument, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument
from csctl.labels import parse_changes
from csctl.names import parse_job_name

group = new_group("Label resources.")


@command(group, "job", aliases=("jobs",), example="csctl label job wsjob-0001 model=gpt old-")
def label_job(
    invocation: Invocation,
    name: JobNameArgument,
    labels: Annotated[
        list[str],
        argument("KEY=VALUE|KEY-...", help="KEY=VALUE adds or changes a label, KEY- removes it."),
    ],
) -> None:
    """Add, change or remove labels of a job."""
    job = parse_job_name(name)
    changes = parse_changes(labels)
    with invocation.connect(job.session) as client:
        client.change_labels(job.name, changes)
    invocation.write(f"job/{job.name} was patched")
