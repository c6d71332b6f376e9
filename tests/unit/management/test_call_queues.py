"""At which gRPC server the calls of a connection wait."""

import os
from pathlib import Path

from appliance.management.front.call_queues import NUM_QUEUES, CallQueues, queue_sockets
from appliance.wire.connections.accepted import Accepted

SOCKETS = queue_sockets(Path("/run"))
FIRST = str(SOCKETS[0])


def test_the_operator_and_root_share_a_queue_with_nobody():
    queues = CallQueues(SOCKETS)
    for uid in (0, os.geteuid()):
        assert queues.address_of(Accepted(host="127.0.0.1", uid=uid)) == FIRST
    others = [Accepted(host="127.0.0.1", uid=uid) for uid in range(1000, 3000)]
    others += [Accepted(host=f"10.0.{n}.1", is_local=False) for n in range(200)]
    others += [Accepted(), Accepted(host="127.0.0.1")]
    assert FIRST not in {queues.address_of(each) for each in others}


def test_one_place_uses_one_queue_whatever_its_ports_and_addresses():
    queues = CallQueues(SOCKETS)
    same = (
        [Accepted(host="127.0.0.1", uid=1000), Accepted(host="127.0.0.2", uid=1000)],
        [Accepted(host=f"2001:db8::{n:x}", is_local=False) for n in range(1, 50)],
        [Accepted(host="10.1.2.3", is_local=False)] * 2,
    )
    for place in same:
        assert len({queues.address_of(each) for each in place}) == 1


def test_places_are_spread_over_all_queues_in_a_way_that_nobody_can_foresee():
    places = [Accepted(host=f"10.0.{n // 250}.{n % 250}", is_local=False) for n in range(1000)]
    one, other = ([CallQueues(SOCKETS).address_of(each) for each in places] for _ in range(2))
    assert len(set(one)) == NUM_QUEUES - 1
    assert one != other
