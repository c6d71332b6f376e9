"""What certificates that the appliance makes for itself are good for."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from appliance.management.access.certificates import issue, will_do

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
NAMES = ("localhost", "wafer.example", "127.0.0.1")


@pytest.fixture(scope="module")
def issued():
    return issue(NAMES, NOW)


def extension(pem: bytes, kind):
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(kind)
    return found.value, found.critical


def test_the_authority_signs_servers_and_no_other_authority(issued):
    """Whoever trusts it trusts what it has signed, and nothing that was signed by that."""
    authority = x509.BasicConstraints(ca=True, path_length=0)
    assert extension(issued.authority, x509.BasicConstraints) == (authority, True)
    server = x509.BasicConstraints(ca=False, path_length=None)
    assert extension(issued.certificate, x509.BasicConstraints) == (server, True)
    signed = x509.load_pem_x509_certificate(issued.certificate)
    signed.verify_directly_issued_by(x509.load_pem_x509_certificate(issued.authority))


def test_a_certificate_is_a_servers_for_all_of_its_names(issued):
    usage, _ = extension(issued.certificate, x509.ExtendedKeyUsage)
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names, _ = extension(issued.certificate, x509.SubjectAlternativeName)
    assert names.get_values_for_type(x509.DNSName) == list(NAMES[:2])
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [NAMES[2]]


def test_a_certificate_will_do_for_its_names_until_a_month_before_its_end(issued):
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    assert certificate.not_valid_before_utc == NOW - dt.timedelta(hours=1)
    end = certificate.not_valid_after_utc
    assert will_do(issued.certificate, NAMES, NOW)
    assert not will_do(issued.certificate, [*NAMES, "other.example"], NOW)
    assert will_do(issued.certificate, NAMES, end - dt.timedelta(days=30, seconds=1))
    assert not will_do(issued.certificate, NAMES, end - dt.timedelta(days=30))
    assert not will_do(b"no certificate", NAMES, NOW)
