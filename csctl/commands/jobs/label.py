"""`csctl label`: add, change and remove labels."""

from functools import partial
from typing import Annotated

from csctl.command_line.flags import JobNameArgument, OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument
from csctl.commands.runs.named_runs import find_job, first_job
from csctl.labels import parse_changes
from csctl.names import parse_job_name
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.jobs import job_columns
from csctl.output.table import render
from protos.csctl.resources_pb2 import Job

group = new_group("Label resources.")


@command(group, "job", aliases=("jobs",), example="csctl label job wsjob-0001 model=gpt old-")
def label_job(
    invocation: Invocation,
    name: JobNameArgument,
    labels: Annotated[
        list[str],
        argument("KEY=VALUE|KEY-...", help="KEY=VALUE adds or changes a label, KEY- removes it."),
    ],
    *,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Add, change or remove labels of a job; with -o json or yaml print the job as it is then."""
    wanted = parse_job_name(name)
    changes = parse_changes(labels)
    with invocation.connect(wanted.session) as client:
        job = find_job(invocation, client, wanted, first_job)
        client.change_labels(job, changes)
        if output is not OutputFormat.TABLE:
            found = client.get("job", Job, name=job)
            table = partial(render, job_columns(invocation.now()), [found])
            invocation.show(found, table=table, output=output)
            return
    invocation.write(f"job/{job} was patched")
