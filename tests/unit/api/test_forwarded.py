"""A trusted proxy's word about where a request comes from is taken, and nobody else's."""

from ipaddress import ip_network

import pytest

from appliance.api.forwarded import passed_on
from appliance.wire.connections.accepted import NOBODY, Accepted

PROXIES = [ip_network(each) for each in ("10.0.0.0/8", "192.0.2.7", "2001:db8::/32")]
NEAR = Accepted(host="10.0.0.7", uid=0)


@pytest.mark.parametrize(
    ("values", "host"),
    [
        (["198.51.100.1"], "198.51.100.1"),
        (["198.51.100.1:4711"], "198.51.100.1"),
        (["[2001:4860::8]:4711"], "2001:4860::8"),
        (["::ffff:198.51.100.1"], "198.51.100.1"),
        (["127.0.0.1, 198.51.100.1"], "198.51.100.1"),  # what the sender wrote stands before
        (["127.0.0.1", "198.51.100.1"], "198.51.100.1"),
        (["198.51.100.1, 10.1.2.3, 192.0.2.7"], "198.51.100.1"),  # through several proxies
        (["10.1.2.3"], "10.1.2.3"),
        (["198.51.100.1, unknown"], "10.0.0.7"),  # a proxy that does not say it is the sender
        (["198.51.100.1, garbage, 10.1.2.3"], "10.1.2.3"),
        ([""], "10.0.0.7"),
        ([","], "10.0.0.7"),
        ([], "10.0.0.7"),
    ],
)
def test_the_last_address_that_is_no_proxys_is_the_senders(values: list[str], host: str) -> None:
    assert passed_on(NEAR, values, PROXIES) == Accepted(host=host, is_local=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.8", "::1", "11.0.0.1", ""])
def test_nobody_else_is_believed(host: str) -> None:
    whose = Accepted(host=host, uid=1000)
    assert passed_on(whose, ["198.51.100.1"], PROXIES) is whose
    assert passed_on(whose, ["198.51.100.1"], []) is whose
    assert passed_on(NOBODY, ["198.51.100.1"], PROXIES) is NOBODY


def test_whose_a_request_is_is_not_for_a_proxy_to_say() -> None:
    """Its own socket may be root's, and what it passes on is not."""
    assert passed_on(NEAR, ["198.51.100.1"], PROXIES).uid is None
    assert passed_on(NEAR, [], PROXIES).uid is None
