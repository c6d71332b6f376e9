"""`csctl get version`."""

from functools import partial

from csctl.command_line.flags import OutputOption
from csctl.command_line.invocation import Invocation
from csctl.command_line.version import csctl_version
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.table import render
from csctl.output.versions import COMPONENT_COLUMNS, components
from protos.csctl.resources_pb2 import VersionInfo


def get_version(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """Show the versions of the cluster's parts and of csctl."""
    with invocation.connect() as client:
        versions = client.get("version", VersionInfo)
    versions.csctl = csctl_version()
    table = partial(render, COMPONENT_COLUMNS, tuple(components(versions)))
    invocation.show(versions, table=table, output=output)
