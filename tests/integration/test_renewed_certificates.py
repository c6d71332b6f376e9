"""Certificates that are renewed while an appliance runs, put in place as a kubelet does it."""

import os
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from appliance.core.clock import SystemClock
from appliance.core.ids import AUTHORITY_SUFFIX
from appliance.management.access.certificate_reload import CertificateReload
from appliance.management.access.certificates import AUTHORITY_NAMES, find_certificates, issue
from tests.support.appliance import running_appliance

pytestmark = pytest.mark.slow

MANAGEMENT = f"job-operator.{AUTHORITY_SUFFIX}"
NAMES = [*AUTHORITY_NAMES, "localhost"]


def put(directory: Path, version: str) -> int:
    """Put a fresh certificate in the place of the last, all files at once; return its number."""
    issued = issue(NAMES, SystemClock().now())
    files = directory / version
    files.mkdir(parents=True)
    for name, data in (
        ("ca.crt", issued.authority),
        ("tls.crt", issued.certificate),
        ("tls.key", issued.key),
    ):
        (files / name).write_bytes(data)
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    (directory / "..new").symlink_to(version)
    os.rename(directory / "..new", directory / "..data")
    return x509.load_pem_x509_certificate(issued.certificate).serial_number


def shown(address: str, name: str | None) -> int:
    """Return the number of the certificate that a server shows to who calls it by a name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2" if name == MANAGEMENT else "http/1.1"])
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=120) as raw,
        context.wrap_socket(raw, server_hostname=name) as connection,
    ):
        pem = connection.getpeercert(binary_form=True)
    assert pem is not None
    return x509.load_der_x509_certificate(pem).serial_number


def test_new_connections_get_a_renewed_certificate(tmp_path):
    certificates = tmp_path / "certificates"
    numbers = [put(certificates, "first")]
    arguments = ("--tls", "--certificates", str(certificates), "--systems", "1")
    with running_appliance(tmp_path / "data", *arguments) as appliance:
        for version in ("second", "third"):
            for name in (MANAGEMENT, "localhost", None):
                assert shown(appliance.address, name) == numbers[-1], name
            numbers.append(put(certificates, version))
        for name in (MANAGEMENT, "localhost", None):
            assert shown(appliance.address, name) == numbers[-1], name
    assert len(set(numbers)) == 3


def test_a_key_without_its_certificate_is_not_taken(tmp_path):
    put(tmp_path, "first")
    reload = CertificateReload(find_certificates(tmp_path, "localhost", SystemClock()))
    assert reload.changed() is None
    put(tmp_path, "second")
    old_key = (tmp_path / "first" / "tls.key").read_bytes()
    new_key = (tmp_path / "second" / "tls.key").read_bytes()
    (tmp_path / "second" / "tls.key").write_bytes(old_key)
    assert reload.changed() is None
    (tmp_path / "second" / "tls.key").unlink()
    assert reload.changed() is None
    (tmp_path / "second" / "tls.key").write_bytes(new_key)
    assert reload.changed().key == new_key
    assert reload.changed() is None
