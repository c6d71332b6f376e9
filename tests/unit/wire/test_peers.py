"""What gRPC calls a connection's other end."""

import pytest

from appliance.wire.peers import Endpoint, parse_peer


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("ipv4:127.0.0.1:40000", Endpoint("127.0.0.1", 40000)),
        ("ipv6:%5B::1%5D:40000", Endpoint("::1", 40000)),
        ("ipv6:[::ffff:127.0.0.1]:40000", Endpoint("127.0.0.1", 40000)),
        ("unix:", None),
        ("unix:/run/x", None),
        ("ipv4:localhost:1", None),
        ("ipv4:127.0.0.1:", None),
        ("", None),
    ],
)
def test_the_name_of_a_peer_is_read(text: str, want: Endpoint | None) -> None:
    assert parse_peer(text) == want
