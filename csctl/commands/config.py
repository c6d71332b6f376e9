"""`csctl config`: the file that leads to the cluster."""

from enum import StrEnum
from typing import Annotated

from csctl.config import load_document, without_certificates
from csctl.flags import command, new_group
from csctl.invocation import Invocation
from csctl.output.document import as_json
from csctl.output.formats import as_yaml
from csctl.params import option

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
