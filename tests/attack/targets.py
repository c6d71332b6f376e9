"""A running appliance as an attacker finds it; passed to his process as JSON."""

import json
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import grpc

SECONDS = 30


class NoAnswerError(Exception):
    """The appliance closed the connection, which is a refusal too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An appliance, and a job of somebody else on it.

    Attributes:
        rest: Root of the REST interface.
        management: Address of the gRPC port.
        authority: Name that management is asked for; empty without TLS.
        pem: Certificate authority; empty without TLS.
        token: The attacker's own, if there are tokens and he has one.
        login: Cookie of root's browser; empty if there is none.
        name: Who the attacker is to the appliance; empty for nobody.
        job: A job of root's.
        coordinator: Its address and secret authority, as if he had learned them.
        held_port: Port of a connection that root holds open to REST.
        paths: Everything below the directories of the appliance.
        processes: Ids of its processes.
        secrets: What must not be seen.
    """

    rest: str
    management: str
    authority: str = ""
    pem: str = ""
    token: str = ""
    login: str = ""
    name: str = ""
    job: str = ""
    coordinator: tuple[str, str] = ("", "")
    held_port: int = 0
    paths: tuple[str, ...] = ()
    processes: tuple[int, ...] = ()
    secrets: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read what `encode` wrote."""
        fields = json.loads(text)
        return cls(**{name: _frozen(value) for name, value in fields.items()})

    def encode(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    def context(self) -> ssl.SSLContext | None:
        """Return how its certificate is checked; None without TLS."""
        return ssl.create_default_context(cadata=self.pem) if self.pem else None

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: object = None,
    ) -> tuple[int, str]:
        """Make a REST request, with the attacker's token if he has one; status 0 for no answer."""
        sent = dict(headers or {})
        if self.token and "Authorization" not in sent:
            sent["Authorization"] = f"Bearer {self.token}"
        text = None if body is None else json.dumps(body)
        if text is not None:
            sent.setdefault("Content-Type", "application/json")
        with closing(self._connection()) as connection:
            try:
                connection.request(method, path, text, sent)
                answer: HTTPResponse = connection.getresponse()
                return answer.status, answer.read().decode(errors="replace")
            except (OSError, EOFError, ValueError) as error:
                return 0, str(error)

    def _connection(self) -> HTTPConnection:
        place = urlsplit(self.rest).netloc
        context = self.context()
        if context is None:
            return HTTPConnection(place, timeout=SECONDS)
        return HTTPSConnection(place, timeout=SECONDS, context=context)

    def connect(self) -> socket.socket:
        """Return a connection to REST, through TLS if there is any."""
        place, context = urlsplit(self.rest), self.context()
        plain = socket.create_connection((place.hostname, place.port), SECONDS)
        if context is None:
            return plain
        return context.wrap_socket(plain, server_hostname=place.hostname)

    def connect_clients(self) -> socket.socket:
        """Return a connection to management's port, through TLS for HTTP/2 if there is any."""
        host, _, port = self.management.rpartition(":")
        plain, context = socket.create_connection((host, int(port)), SECONDS), self.context()
        if context is None:
            return plain
        context.set_alpn_protocols(["h2"])
        return context.wrap_socket(plain, server_hostname=self.authority)

    def channel(self) -> grpc.Channel:
        """Return a gRPC connection to management."""
        if not self.pem:
            return grpc.insecure_channel(self.management)
        named = [("grpc.default_authority", self.authority)]
        credentials = grpc.ssl_channel_credentials(self.pem.encode())
        return grpc.secure_channel(self.management, credentials, named)

    def coordinator_channel(self) -> grpc.Channel:
        """Return a gRPC connection to the coordinator of the job, with its authority."""
        address, authority = self.coordinator
        named = [("grpc.default_authority", authority)]
        if not self.pem:
            return grpc.insecure_channel(address, named)
        credentials = grpc.ssl_channel_credentials(self.pem.encode())
        return grpc.secure_channel(address, credentials, named)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the attacker's own token as metadata of a call."""
        return (("auth-token", self.token),) if self.token else ()


def files_below(*directories: str) -> Iterator[str]:
    """Yield the paths of directories and all that is in them, as who may see them."""
    for directory in directories:
        yield directory
        for place, names, files in os.walk(directory):
            for name in (*names, *files):
                yield os.path.join(place, name)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
