"""`csctl types`: the resources that `get` can show."""

from csctl.command_line.invocation import Invocation
from csctl.output.table import Column, render

_COLUMNS: tuple[Column[str], ...] = (Column(header="NAME", cell=str),)


def list_types(invocation: Invocation) -> None:
    """Display resource types."""
    with invocation.connect() as client:
        names = client.resource_types()
    invocation.write(render(_COLUMNS, names))
