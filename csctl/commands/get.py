"""`csctl get`: resources as tables and documents."""

import datetime as dt
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from csctl.flags import JobNameArgument, command, new_group
from csctl.invocation import Invocation
from csctl.labels import parse_filters
from csctl.names import parse_job_name
from csctl.output.formats import OutputFormat
from csctl.output.jobs import (
    FAILURE_COLUMNS,
    POD_COLUMNS,
    job_columns,
    pods_of,
    reason,
)
from csctl.output.nodes import (
    CLUSTER_COLUMNS,
    NODE_COLUMNS,
    NODE_GROUP_COLUMNS,
    SYSTEM_COLUMNS,
    group_roles,
)
from csctl.output.table import Column, render
from csctl.output.times import TIME_COLUMNS, system_times
from csctl.output.versions import COMPONENT_COLUMNS, components
from csctl.output.volumes import VOLUME_COLUMNS
from csctl.version import csctl_version
from protos.csctl.api_pb2 import GetOptions
from protos.csctl.resources_pb2 import (
    Job,
    JobList,
    NodeGroupList,
    NodeInfo,
    NodeInfoList,
    VersionInfo,
    VolumeList,
)

group = new_group("Get resources.")

OutputOption = Annotated[
    OutputFormat, typer.Option("-o", "--output", help="Form of the answer.", show_default=True)
]
OneNameArgument = Annotated[
    str, typer.Argument(metavar="[NAME]", show_default=False, help="Only this one.")
]


@command(group, "jobs")
def list_jobs(
    invocation: Invocation,
    *,
    all_states: Annotated[
        bool, typer.Option("-a", "--all-states", help="Finished jobs too.")
    ] = False,
    mine: Annotated[bool, typer.Option("-m", "--mine", help="My jobs only.")] = False,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "-l", "--label", metavar="K=V,...", help="Jobs that have all of these labels only."
        ),
    ] = None,
    workflow: Annotated[
        str, typer.Option("--workflow", metavar="NAME", help="Jobs of this workflow only.")
    ] = "",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="At most N jobs.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List jobs that wait or run: by priority, then newest first."""
    options = GetOptions(
        all_states=all_states,
        current_user_only=mine,
        label_filters=parse_filters(labels or ()),
        workflow_id=workflow,
        limit=limit or 0,
        show_pending_status=output is not OutputFormat.TABLE,
    )
    with invocation.connect() as client:
        jobs = client.get("jobs", JobList, options=options).items
    invocation.show_list(
        jobs, table=partial(render, job_columns(invocation.now()), jobs), output=output
    )


@command(group, "job")
def get_job(
    invocation: Invocation,
    name: JobNameArgument,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show one job with its pods, role by role."""
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        job = client.get("job", Job, name=wanted.name, options=GetOptions(show_pending_status=True))
    invocation.show(job, table=partial(_job_tables, job, invocation.now()), output=output)


@command(group, "cluster", has_own_n=True)
def get_cluster(
    invocation: Invocation,
    node_only: Annotated[bool, typer.Option("-n", "--node-only", help="Nodes only.")] = False,
    system_only: Annotated[bool, typer.Option("-s", "--system-only", help="Systems only.")] = False,
    error_only: Annotated[
        bool, typer.Option("-e", "--error-only", help="Only what is not healthy.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List systems and nodes with their load, state and jobs."""
    options = GetOptions(node_only=node_only, system_only=system_only, error_only=error_only)
    _show_nodes(invocation, "cluster", CLUSTER_COLUMNS, options=options, output=output)


@command(group, "systems", aliases=("system",))
def list_systems(
    invocation: Invocation,
    name: OneNameArgument = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List systems, or the one named."""
    _show_nodes(invocation, "system", SYSTEM_COLUMNS, name=name, output=output)


@command(group, "nodes", aliases=("node",))
def list_nodes(
    invocation: Invocation,
    name: OneNameArgument = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List nodes, or the one named."""
    _show_nodes(invocation, "node", NODE_COLUMNS, name=name, output=output)


@command(group, "nodegroups", aliases=("nodegroup",))
def list_node_groups(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """List node groups and what they offer to each role."""
    with invocation.connect() as client:
        groups = client.get("nodegroups", NodeGroupList).items
    table = partial(render, NODE_GROUP_COLUMNS, tuple(group_roles(groups)))
    invocation.show_list(groups, table=table, output=output)


@command(group, "volumes", aliases=("volume",))
def list_volumes(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """List directories that jobs can see."""
    with invocation.connect() as client:
        volumes = client.get("volumes", VolumeList).items
    invocation.show_list(volumes, table=partial(render, VOLUME_COLUMNS, volumes), output=output)


@command(group, "version", aliases=("versions",))
def get_version(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """Show the versions of the cluster's parts and of csctl."""
    with invocation.connect() as client:
        versions = client.get("version", VersionInfo)
    versions.csctl = csctl_version()
    table = partial(render, COMPONENT_COLUMNS, tuple(components(versions)))
    invocation.show(versions, table=table, output=output)


def _show_nodes(
    invocation: Invocation,
    resource_type: str,
    columns: Sequence[Column[NodeInfo]],
    *,
    output: OutputFormat,
    name: str = "",
    options: GetOptions | None = None,
) -> None:
    with invocation.connect() as client:
        nodes = client.get(resource_type, NodeInfoList, name=name, options=options).items
    invocation.show_list(nodes, table=partial(render, columns, nodes), output=output)


def _job_tables(job: Job, now: dt.datetime, *, wide: bool, coloured: bool) -> str:
    """Return the job's row, its pods, its failures and the reason for its phase."""
    parts = [render(job_columns(now), [job], wide=wide, coloured=coloured)]
    pods = tuple(pods_of(job))
    if pods:
        parts.append(render(POD_COLUMNS, pods, wide=wide, coloured=coloured))
    times = tuple(system_times(job))
    if times:
        parts.append(render(TIME_COLUMNS, times, wide=wide, coloured=coloured))
    if job.status.error_replicas:
        parts.append(render(FAILURE_COLUMNS, job.status.error_replicas, wide=wide))
    if reason(job):
        parts.append(f"Reason: {reason(job)}")
    return "\n\n".join(parts)
