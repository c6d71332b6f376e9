"""`csctl get cluster`, `systems`, `nodes` and `nodegroups`."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from csctl.command_line.flags import OutputOption
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.output.documents.output_formats import Output, OutputFormat
from csctl.output.nodes import (
    CLUSTER_COLUMNS,
    NODE_COLUMNS,
    NODE_GROUP_COLUMNS,
    SYSTEM_COLUMNS,
    group_roles,
)
from csctl.output.table import Column, render
from protos.csctl.api_pb2 import GetOptions
from protos.csctl.resources_pb2 import NodeGroupList, NodeInfo, NodeInfoList

OneNameArgument = Annotated[str, argument("[NAME]", help="Only this one.")]
RoleFlag = Annotated[
    str, option("--role", metavar="ROLE", help="Those with this role only, as in `memory`.")
]


VersionFlag = Annotated[
    str,
    option(
        "--version",
        metavar="FILTER",
        help="Those of a platform of this version only, version=NAME, or not, version!=NAME.",
    ),
]
ErrorOnlyFlag = Annotated[bool, option("-e", "--error-only", help="Only what is not healthy.")]


def get_cluster(
    invocation: Invocation,
    *,
    node_only: Annotated[bool, option("--node-only", help="Nodes only.")] = False,
    system_only: Annotated[bool, option("-s", "--system-only", help="Systems only.")] = False,
    error_only: ErrorOnlyFlag = False,
    role: RoleFlag = "",
    system: Annotated[str, option("--system", metavar="NAME", help="This system only.")] = "",
    version: VersionFlag = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List systems and nodes with their load, state and jobs."""
    options = GetOptions(
        node_only=node_only,
        system_only=system_only,
        error_only=error_only,
        role=role,
        system=system,
        version=version,
    )
    _show_nodes(invocation, "cluster", CLUSTER_COLUMNS, options=options, output=output)


def list_systems(
    invocation: Invocation,
    name: OneNameArgument = "",
    *,
    error_only: ErrorOnlyFlag = False,
    version: VersionFlag = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List systems, or the one named."""
    options = GetOptions(error_only=error_only, version=version)
    _show_nodes(invocation, "system", SYSTEM_COLUMNS, name=name, options=options, output=output)


def list_nodes(
    invocation: Invocation,
    name: OneNameArgument = "",
    role: RoleFlag = "",
    *,
    error_only: ErrorOnlyFlag = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List nodes, or the one named."""
    options = GetOptions(role=role, error_only=error_only)
    _show_nodes(invocation, "node", NODE_COLUMNS, name=name, options=options, output=output)


def list_node_groups(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """List node groups and what they offer to each role."""
    with invocation.connect() as client:
        groups = client.get("nodegroups", NodeGroupList).items
    table = partial(render, NODE_GROUP_COLUMNS, tuple(group_roles(groups)))
    invocation.show_list(groups, table=table, output=output)


def _show_nodes(
    invocation: Invocation,
    resource_type: str,
    columns: Sequence[Column[NodeInfo]],
    *,
    output: Output,
    name: str = "",
    options: GetOptions | None = None,
) -> None:
    with invocation.connect() as client:
        nodes = client.get(resource_type, NodeInfoList, name=name, options=options).items
    invocation.show_list(nodes, table=partial(render, columns, nodes), output=output)
