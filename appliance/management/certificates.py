"""The appliance's own certificate authority and the one certificate it signs.

The authority's key is dropped after signing, so that nobody can sign another certificate that
clients of this appliance would trust.
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from appliance.core.clock import Clock
from appliance.management.submissions import AUTHORITY_SUFFIX

_VALID_DAYS = 825
_RENEW_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files with the authority's certificate, the server's, and the server's key (PEM)."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def below(cls, directory: Path) -> "Certificates":
        """Return the files' names in a directory."""
        return cls(
            authority=directory / "ca.pem",
            certificate=directory / "server.pem",
            key=directory / "server.key",
        )


def ensure_certificates(directory: Path, host: str, clock: Clock) -> Certificates:
    """Return certificates for this appliance; make new ones if there are none or they run out.

    Args:
        directory: Where they are kept; created if needed, readable by its owner alone.
        host: Name or address under which clients reach the appliance, beside `localhost`.
        clock: Says what "run out" means.
    """
    files = Certificates.below(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_usable(files, host, clock):
        _create(files, host, clock)
    return files


def _is_usable(files: Certificates, host: str, clock: Clock) -> bool:
    if not all(path.exists() for path in (files.authority, files.certificate, files.key)):
        return False
    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    remaining = certificate.not_valid_after_utc - clock.now()
    return _alternative_name(host) in names and remaining > dt.timedelta(days=_RENEW_DAYS)


def _create(files: Certificates, host: str, clock: Clock) -> None:
    start, end = clock.now() - dt.timedelta(hours=1), clock.now() + dt.timedelta(days=_VALID_DAYS)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wafer appliance CA")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_SUFFIX)])
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    names = [f"*.{AUTHORITY_SUFFIX}", AUTHORITY_SUFFIX, "localhost", "127.0.0.1", host]

    def builder(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
        )

    authority = (
        builder(issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName([_alternative_name(n) for n in dict.fromkeys(names)])
    server = (
        builder(subject, server_key)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    files.authority.write_bytes(authority.public_bytes(pem))
    files.certificate.write_bytes(server.public_bytes(pem))
    files.key.touch(mode=0o600)
    files.key.write_bytes(
        server_key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
