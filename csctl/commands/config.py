"""`csctl config`: the configuration file with the cluster's address."""

from enum import StrEnum
from typing import Annotated

from csctl.command_line.flags import command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.connection.config import load_document, with_server, without_certificates
from csctl.output.documents.document import as_json
from csctl.output.documents.output_formats import as_yaml

group = new_group("View and change csctl config files.")


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


@command(group, "set-cluster", example="csctl config set-cluster wafer --server 10.0.0.2:443")
def set_cluster(
    invocation: Invocation,
    name: Annotated[str, argument("NAME", help="The cluster, in the config file.")],
    *,
    server: Annotated[str, option("--server", metavar="HOST[:PORT]", help="Its address.")],
) -> None:
    """Change a cluster's address in the config file; one that it lacks is added.

    The current context stays the one that it is.
    """
    path = invocation.config_path
    document = load_document(path)
    become = with_server(document, name, server)
    part = path.with_name(f".{path.name}.part")
    part.write_text(as_json(document) + "\n")
    part.chmod(path.stat().st_mode & 0o777)
    part.replace(path)
    invocation.write(f'Cluster "{name}" {become}.')
