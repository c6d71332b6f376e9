"""`csctl label`: add, change and remove labels."""

from typing import Annotated

import typer

from csctl.flags import JobNameArgument, command, new_group
from csctl.invocation import Invocation
from csctl.labels import parse_changes
from csctl.names import parse_job_name

group = new_group("Label resources.")


@command(group, "job", aliases=("jobs",))
def label_job(
    invocation: Invocation,
    name: JobNameArgument,
    labels: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE|KEY-...",
            show_default=False,
            help="KEY=VALUE adds or changes a label, KEY- removes it.",
        ),
    ],
) -> None:
    """Add, change or remove labels of a job."""
    job = parse_job_name(name)
    changes = parse_changes(labels)
    with invocation.connect(job.session) as client:
        client.change_labels(job.name, changes)
    invocation.write(f"job/{job.name} was patched")
