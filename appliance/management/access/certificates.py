"""The appliance's own certificate authority and the one certificate it signs.

The authority's key is dropped after signing, so that nobody can sign another certificate that
clients of this appliance would trust.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from appliance.core.clock import Clock
from appliance.core.errors import UserError
from appliance.core.ids import AUTHORITY_SUFFIX
from appliance.files.kept_files import damaged, read_own, replace_file, sync_directory

AUTHORITY_NAMES = (f"*.{AUTHORITY_SUFFIX}", AUTHORITY_SUFFIX)
"""What clients call sessions and jobs, whatever address they connect to."""

_WHAT = "a part of the appliance's certificates"
_HINT = (
    "Restore it from a backup with `appliance restore FILE --keys`; or remove the directory: new "
    "ones are made, and clients need the new config_v2."
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A fresh certificate, its key and the certificate of its authority (PEM)."""

    authority: bytes
    certificate: bytes
    key: bytes


def ensure_certificates(directory: Path, host: str, clock: Clock) -> Certificates:
    """Return certificates for this appliance; make new ones if there are none or they run out.

    Args:
        directory: Where they are kept; created if needed, readable by its owner alone.
        host: Name or address under which clients reach the appliance, beside `localhost`.
        clock: Says what "run out" means.

    Raises:
        ClusterError: What is there is damaged: clients hold the authority, so it is not replaced.
    """
    files = Certificates.below(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_usable(files, host, clock):
        _create(files, host, clock)
    return files


def find_certificates(directory: Path, host: str, clock: Clock) -> Certificates:
    """Return certificates that are made and renewed elsewhere, as in a Kubernetes TLS Secret.

    Args:
        directory: Holds `ca.crt`, `tls.crt` and `tls.key`.
        host: Name or address under which clients reach the appliance.
        clock: Says whether they are still valid.

    Raises:
        UserError: A file is missing or no certificate, or the certificate has run out or lacks a
            name that clients ask for.
    """
    files = Certificates(
        authority=directory / "ca.crt",
        certificate=directory / "tls.crt",
        key=directory / "tls.key",
    )
    try:
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        x509.load_pem_x509_certificate(files.authority.read_bytes())
        is_whole = is_pair(files.certificate.read_bytes(), files.key.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"The certificates in {directory} cannot be used: {error}.") from error
    if not is_whole:
        raise UserError(f"The key {files.key} does not belong to {files.certificate}.")
    if certificate.not_valid_after_utc <= clock.now():
        raise UserError(
            f"The certificate {files.certificate} has run out at "
            f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC.",
            hint="Renew it and start again.",
        )
    has = _names_of(certificate)
    wanted = {_alternative_name(name) for name in (*AUTHORITY_NAMES, host)}
    if missing := sorted(str(name.value) for name in wanted - has):
        raise UserError(
            f"The certificate {files.certificate} is not for {', '.join(missing)}.",
            hint="Clients call jobs and sessions by these names; have it issued for them, too.",
        )
    return files


def _names_of(certificate: x509.Certificate) -> set[x509.GeneralName]:
    try:
        kind = x509.SubjectAlternativeName
        return set(certificate.extensions.get_extension_for_class(kind).value)
    except x509.ExtensionNotFound:
        return set()


def issue(names: Sequence[str], now: dt.datetime) -> Issued:
    """Return a certificate for some names, signed by an authority that is made for it alone.

    Args:
        names: Names and addresses; at least one.
        now: Beginning of its life.
    """
    start, end = now - dt.timedelta(hours=1), now + dt.timedelta(days=_VALID_DAYS)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wafer appliance CA")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_SUFFIX)])
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())

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
    return Issued(
        authority=authority.public_bytes(pem),
        certificate=server.public_bytes(pem),
        key=server_key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def will_do(certificate_pem: bytes, names: Sequence[str], now: dt.datetime) -> bool:
    """Whether a certificate is for all of some names and does not run out within 30 days."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except ValueError:
        return False
    wanted = {_alternative_name(name) for name in names}
    remaining = certificate.not_valid_after_utc - now
    return wanted <= _names_of(certificate) and remaining > dt.timedelta(days=_RENEW_DAYS)


def _is_usable(files: Certificates, host: str, clock: Clock) -> bool:
    """Whether there are certificates for a host that last; raises if one is damaged."""
    if not all(path.exists() for path in (files.authority, files.certificate, files.key)):
        return False
    read = partial(read_own, what=_WHAT, hint=_HINT)
    authority, certificate = read(files.authority, is_secret=False), read(files.certificate)
    if not is_pair(certificate, read(files.key)):
        raise damaged(files.key, _WHAT, f"it does not belong to {files.certificate.name}", _HINT)
    if not _is_issued_by(certificate, authority):
        raise damaged(files.authority, _WHAT, f"{files.certificate.name} is not of it", _HINT)
    return will_do(certificate, [host], clock.now())


def is_pair(certificate: bytes, key: bytes) -> bool:
    """Whether a key (PEM) is that of a certificate (PEM)."""
    try:
        ours = load_pem_private_key(key, password=None).public_key()
        theirs = x509.load_pem_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return ours.public_bytes(*form) == theirs.public_bytes(*form)


def _is_issued_by(certificate: bytes, authority: bytes) -> bool:
    try:
        issuer = x509.load_pem_x509_certificate(authority)
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _create(files: Certificates, host: str, clock: Clock) -> None:
    """Write new certificates; the key comes last, so that half of them are made anew."""
    issued = issue([*AUTHORITY_NAMES, "localhost", "127.0.0.1", "::1", host], clock.now())
    files.key.unlink(missing_ok=True)
    sync_directory(files.key.parent)
    replace_file(files.authority, issued.authority)
    replace_file(files.certificate, issued.certificate)
    replace_file(files.key, issued.key)


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
