"""The port of a pod for its job's client: with TLS if the pod has a certificate."""

from pathlib import Path

import grpc


def add_client_port(
    server: grpc.Server, *, host: str, tls_cert: Path | None, tls_key: Path | None
) -> int:
    """Let a server listen on a free port, and return its number.

    Args:
        server: Not started yet.
        host: Address to listen at.
        tls_cert: Certificate chain, PEM; without it or the key the port is not encrypted.
        tls_key: Key of the certificate, PEM.
    """
    address = f"{host}:0"
    if tls_cert is None or tls_key is None:
        return server.add_insecure_port(address)
    pair = (tls_key.read_bytes(), tls_cert.read_bytes())
    return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
