"""No place takes all connections, and whoever comes next finds some left."""

import asyncio
import os
import resource
import socket

import pytest
from uvicorn.server import ServerState

from appliance.cli.rest_shell import http_config
from appliance.wire.connections import connection_shares
from appliance.wire.connections.accepted import NOBODY, Accepted, AcceptedConnections
from appliance.wire.connections.connection_shares import ConnectionShares, places_for_all
from appliance.wire.connections.forwarder import Destination, Forwarder

ADA = Accepted(host="127.0.0.1", uid=1000)
BOB = Accepted(host="127.0.0.1", uid=1001)
ROOT = Accepted(host="127.0.0.1", uid=0)
OPERATOR = Accepted(host="127.0.0.1", uid=os.geteuid())
FAR = Accepted(host="198.51.100.7", is_local=False)
PLACES = 64


def num_taken(shares: ConnectionShares, origin: Accepted) -> int:
    """Return how many connections a place gets that opens as many as it can."""
    return sum(shares.take(origin) is not None for _ in range(3 * PLACES))


def test_one_place_alone_gets_a_third_and_the_next_a_third_of_what_is_left() -> None:
    shares = ConnectionShares(81)
    assert [num_taken(shares, each) for each in (ADA, BOB, FAR, NOBODY)] == [27, 18, 12, 8]


def test_nine_greedy_places_leave_some_for_a_tenth() -> None:
    shares = ConnectionShares(PLACES)
    for number in range(9):
        num_taken(shares, Accepted(host=f"192.0.2.{number}", is_local=False))
    assert shares.take(FAR) is not None


@pytest.mark.parametrize("helper", [ROOT, OPERATOR])
def test_who_can_help_gets_in_when_all_is_taken(helper: Accepted) -> None:
    shares = ConnectionShares(PLACES)
    for uid in range(1000, 1100):
        num_taken(shares, Accepted(host="127.0.0.1", uid=uid))
    assert shares.take(helper) is not None


def test_what_is_given_back_is_there_again() -> None:
    shares = ConnectionShares(PLACES)
    places = [shares.take(ADA) for _ in range(22)]
    assert shares.take(ADA) is None
    for place in places:
        shares.give_back(place)
    assert num_taken(shares, BOB) == 22


@pytest.mark.parametrize(
    ("one", "other", "is_one_place"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1%eth0", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
    ],
)
def test_a_site_of_ipv6_is_one_place_and_an_address_of_ipv4(
    one: str, other: str, *, is_one_place: bool
) -> None:
    shares = ConnectionShares(PLACES)
    places = {shares.take(Accepted(host=host, is_local=False)) for host in (one, other)}
    assert (len(places) == 1) is is_one_place


@pytest.mark.parametrize(
    ("soft", "places"), [(256, 64), (1024, 204), (20_000, 4000), (1 << 20, 8192), (-1, 8192)]
)
def test_there_are_as_many_as_files_may_be_open_for(monkeypatch, soft: int, places: int) -> None:
    assert resource.RLIM_INFINITY == -1
    monkeypatch.setattr(connection_shares.resource, "getrlimit", lambda _: (soft, soft))
    assert places_for_all() == places


class Ends(asyncio.Transport):
    """A connection of which it is only seen whether it is cut."""

    is_cut = False

    def __init__(self) -> None:
        super().__init__()
        self.socket, self.closed = socket.socket(), asyncio.Event()

    def get_extra_info(self, name, default=None):
        return {"socket": self.socket, "peername": ("127.0.0.1", 1)}.get(name, default)

    def abort(self) -> None:
        self.is_cut = True

    def close(self) -> None:
        self.closed.set()

    def pause_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_cut


def opened(make, count: int) -> list[asyncio.Protocol]:
    """Open so many connections; return those that are kept."""
    found = []
    for _ in range(count):
        protocol, ends = make(), Ends()
        with ends.socket:
            protocol.connection_made(ends)
        if ends.is_cut:
            protocol.connection_lost(None)
        else:
            found.append(protocol)
    return found


class Origins:
    """Says whose the next connections are."""

    present = ADA

    def __call__(self, _: object) -> Accepted:
        return self.present


def test_the_front_cuts_what_one_place_has_too_much_of_and_keeps_anothers() -> None:
    async def run() -> list[int]:
        whose = Origins()
        shares = ConnectionShares(12)
        forwarder = Forwarder(lambda *_: None, AcceptedConnections(), whose, shares)
        adas = opened(forwarder.client, 10)
        whose.present = BOB
        bobs = opened(forwarder.client, 10)
        for each in adas:
            each.connection_lost(None)
        return [len(adas), len(bobs), len(opened(forwarder.client, 10))]

    assert asyncio.run(run()) == [4, 3, 1]


def test_a_connection_that_a_proxy_passes_on_is_its_senders() -> None:
    async def run() -> None:
        shares = ConnectionShares(12)

        async def destination() -> Destination:
            return Destination(address="/nowhere", sender=FAR)

        forwarder = Forwarder(
            lambda *_: destination(), AcceptedConnections(), lambda _: ADA, shares
        )
        (client,) = opened(forwarder.client, 1)
        assert set(shares.places()) == {"uid 1000"}
        await client.transport.closed.wait()  # nobody is at /nowhere
        assert set(shares.places()) == {FAR.host}
        client.connection_lost(None)
        assert not shares.places()

    asyncio.run(run())


def test_rest_cuts_what_one_place_has_too_much_of_and_keeps_anothers() -> None:
    most = min(2048, places_for_all() // 2)

    async def run() -> list[int]:
        whose = Origins()
        config = http_config(None, None, whose)
        config.load()

        def make() -> asyncio.Protocol:
            return config.http_protocol_class(config, ServerState(), {})

        adas = opened(make, most)
        whose.present = BOB
        bobs = opened(make, 3)
        for each in (*adas, *bobs):
            each.connection_lost(None)
        return [len(adas), len(bobs)]

    assert asyncio.run(run()) == [-(-most // 3), 3]
