"""Reloads certificates that are renewed while the appliance runs, for each new connection.

Whoever renews them (cert-manager, through the kubelet) replaces the files. The files are checked
when a connection begins, which costs two `stat`. A certificate and a key that do not belong
together are being replaced: the last good pair stays until they do. Open connections continue with
the certificate that they began with.
"""

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import grpc

from appliance.management.access.certificates import Certificates, is_pair

logger = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate chain and its key (PEM)."""

    certificate: bytes
    key: bytes


class CertificateReload:
    """The present certificate of a server, for one kind of connections.

    Args:
        files: Where the certificate and its key are.
    """

    def __init__(self, files: Certificates) -> None:
        self._files = files
        self._stamp = self._read_stamp()
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a gRPC server proves itself with, from connection to connection."""
        first = Pair(
            certificate=self._files.certificate.read_bytes(), key=self._files.key.read_bytes()
        )
        return grpc.dynamic_ssl_server_credentials(
            _configuration(first),
            self._next_configuration,  # type: ignore[arg-type]  # it may return None: no change
        )

    def follow(self, context: ssl.SSLContext) -> None:
        """Let the connections of a server's context begin with the present certificate."""
        context.sni_callback = self._take_context  # called whether clients name a server or not

    def changed(self) -> Pair | None:
        """Return the pair if it is another one than at the last call; from any thread."""
        with self._lock:
            stamp = self._read_stamp()
            if stamp is None or stamp == self._stamp:
                return None
            pair = _read_pair(self._files.certificate, self._files.key)
            if pair is not None:
                self._stamp = stamp
                logger.info(
                    "Certificate is renewed", extra={"certificate": str(self._files.certificate)}
                )
            return pair

    def _next_configuration(self) -> grpc.ServerCertificateConfiguration | None:
        pair = self.changed()
        return None if pair is None else _configuration(pair)

    def _take_context(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        if self.changed() is not None:
            renewed = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            renewed.load_cert_chain(self._files.certificate, self._files.key)
            self._context = renewed
        if self._context is not None:
            connection.context = self._context

    def _read_stamp(self) -> _Stamp | None:
        """Return what changes with the files; None if one is not there."""
        try:
            found = [path.stat() for path in (self._files.certificate, self._files.key)]
        except OSError:
            return None
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)


def _configuration(pair: Pair) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.certificate)])


def _read_pair(certificate: Path, key: Path) -> Pair | None:
    """Return a certificate and its key; None if they do not belong together, or are none."""
    try:
        pair = Pair(certificate=certificate.read_bytes(), key=key.read_bytes())
    except OSError:
        return None
    return pair if is_pair(pair.certificate, pair.key) else None
