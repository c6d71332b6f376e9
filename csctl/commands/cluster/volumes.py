"""`csctl get volumes`."""

from functools import partial

from csctl.command_line.flags import OutputOption
from csctl.command_line.invocation import Invocation
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.table import render
from csctl.output.volumes import VOLUME_COLUMNS
from protos.csctl.resources_pb2 import VolumeList


def list_volumes(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """List directories that jobs can see."""
    with invocation.connect() as client:
        volumes = client.get("volumes", VolumeList).items
    invocation.show_list(volumes, table=partial(render, VOLUME_COLUMNS, volumes), output=output)
