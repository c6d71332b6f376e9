"""`appliance certificates ...`: the certificate authority of an appliance on Kubernetes."""

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from appliance.core.clock import SystemClock
from appliance.core.errors import WscError
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
    try:
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
    except WscError as error:
        _fail(error)
    typer.echo(f"Secret {namespace}/{secret} is {'made' if kept is None else 'renewed'}.")


@certificates_app.command("remove-secret")
def remove_secret(secret: _Secret, *, namespace: _Namespace = "default") -> None:
    """Remove a TLS Secret."""
    try:
        was_there = _open(namespace, secret).remove()
    except WscError as error:
        _fail(error)
    typer.echo(f"Secret {namespace}/{secret} {'is removed' if was_there else 'was not there'}.")


def _open(namespace: str, name: str) -> "TlsSecret":
    # Kubernetes' client takes a second to import, and no other command wants it.
    from appliance.cluster.tls_secret import TlsSecret  # noqa: PLC0415

    return TlsSecret(namespace=namespace, name=name)


def _fail(error: WscError) -> NoReturn:
    typer.echo(f"Error: {error}", err=True)
    raise typer.Exit(error.exit_code)
