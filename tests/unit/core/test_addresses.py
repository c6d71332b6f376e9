"""host:port of names and of addresses of both families."""

import pytest

from appliance.core.addresses import bare_host, host_and_port, is_ipv6, split_address

FORMS = [
    ("localhost", "localhost:9000"),
    ("wafer-inner.team.svc", "wafer-inner.team.svc:9000"),
    ("127.0.0.1", "127.0.0.1:9000"),
    ("::", "[::]:9000"),
    ("::1", "[::1]:9000"),
    ("fd00:10:244::17", "[fd00:10:244::17]:9000"),
    ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:9000"),
    ("fe80::1%eth0", "[fe80::1%eth0]:9000"),
]


@pytest.mark.parametrize(("host", "text"), FORMS)
def test_an_address_is_taken_apart_as_it_was_made(host: str, text: str) -> None:
    assert host_and_port(host, 9000) == text
    assert split_address(text) == (host, 9000)


def test_brackets_are_not_doubled() -> None:
    assert host_and_port("[::1]", 1) == "[::1]:1"
    assert bare_host("[::1]") == "::1"
    assert bare_host("name") == "name"


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", ":9000", "host", "host:", "host:port", "host:-1", "host:65536", "host:\u0661"),
        *("::1", "::1:9000", "fd00::1:9000", "[::1]", "[::1]9000", "[]:9000", "[name]:9000"),
        *("[::1:9000", "::1]:9000", "[[::1]]:9000"),
    ],
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no host:port"):
        split_address(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *[(host, True) for host in ("::", "::1", "[::1]", "fd00::1", "fe80::1%eth0")],
        *[(host, False) for host in ("", "name", "127.0.0.1", "a:b", "fd00::g")],
    ],
)
def test_an_address_of_the_sixth_version_is_known(host: str, expected: bool) -> None:
    assert is_ipv6(host) is expected
