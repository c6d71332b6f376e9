"""`csctl config`: the configuration file with the cluster's address."""

from enum import StrEnum
from typing import Annotated

from csctl.command_line.flags import command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.connection.config import load_document, without_certificates
from csctl.output.documents.document import as_json
from csctl.output.documents.output_formats import as_yaml

group = new_group("View csctl config files.")


class DocumentFormat(StrEnum):
    """Value of `-o` where there is no table."""

    YAML = "yaml"
    JSON = "json"


@command(group, "view", example="csctl config view")
def view(
    invocation: Invocation,
    output: Annotated[
        DocumentFormat, option("-o", "--output", help="Form of the answer.")
    ] = DocumentFormat.YAML,
) -> None:
    """Show the config in use, without its certificates."""
    document = without_certificates(load_document(invocation.config_path))
    invocation.write(as_json(document) if output is DocumentFormat.JSON else as_yaml(document))
