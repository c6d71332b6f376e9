"""`appliance certificates ...`: the certificate authority of an appliance on Kubernetes."""

from typing import TYPE_CHECKING, Annotated

import typer

from appliance.cli.errors import clear_errors
from appliance.core.clock import SystemClock
from appliance.management.access.certificates import issue, will_do

if TYPE_CHECKING:
    from appliance.cluster.tls_secret import TlsSecret

certificates_app = typer.Typer(
    help="Make the certificates of an appliance on Kubernetes.", no_args_is_help=True
)

_Namespace = Annotated[str, typer.Option(help="Namespace of the Secret.")]
_Secret = Annotated[str, typer.Argument(help="Name of the Secret.")]


@certificates_app.command("make-secret")
def make_secret(
    secret: _Secret,
    names: Annotated[list[str], typer.Argument(help="Names and addresses it is to be for.")],
    *,
    namespace: _Namespace = "default",
) -> None:
    """Make a TLS Secret with an authority of its own, or renew one that will not do.

    One that holds all names for 30 more days stays as it is: clients hold its authority.
    """
    now = SystemClock().now()
    with clear_errors():
        store = _open(namespace, secret)
        kept = store.read()
        if kept is not None and will_do(kept.get("tls.crt", b""), names, now):
            typer.echo(f"Secret {namespace}/{secret} is still good.")
            return
        issued = issue(names, now)
        contents = {
            "ca.crt": issued.authority,
            "tls.crt": issued.certificate,
            "tls.key": issued.key,
        }
        store.write(contents, exists=kept is not None)
    typer.echo(f"Secret {namespace}/{secret} is {'made' if kept is None else 'renewed'}.")


def _open(namespace: str, name: str) -> "TlsSecret":
    # Kubernetes' client takes a second to import, and no other command wants it.
    from appliance.cluster.tls_secret import TlsSecret  # noqa: PLC0415

    return TlsSecret(namespace=namespace, name=name)
