"""Ports of a management that takes the place of one that did not end in order."""

import socket

import pytest

from appliance.core.errors import ClusterError
from appliance.management.store.instance import Instance, InstanceState
from appliance.management.store.persistent_ports import Ports, await_free
from tests.support.clock import FakeClock

STATE = {
    "pid": 1,
    "address": "localhost:9000",
    "rest_url": "http://localhost:9001",
    "config_path": "/c",
    "runtime_root": "/r",
    "num_systems": 1,
}


def test_a_port_that_the_command_line_names_counts_and_any_other_is_kept():
    asked = Ports(port=9000, rest_port=0, inner_port=9003, node_port=0)
    kept = Ports(port=41_000, rest_port=41_001, inner_port=41_002, node_port=41_003)
    assert asked.with_kept(kept) == Ports(
        port=9000, rest_port=41_001, inner_port=9003, node_port=41_003
    )
    assert asked.with_kept(Ports()) == asked


def test_an_appliance_that_ended_in_order_leaves_no_ports(tmp_path):
    instance = Instance(tmp_path)
    assert instance.kept_ports() == Ports()
    instance.write_state(InstanceState(**STATE, ports=Ports(port=41_000)))
    assert instance.kept_ports() == Ports(port=41_000)
    instance.clear_state()
    assert instance.kept_ports() == Ports()


def test_what_an_older_version_wrote_can_be_read():
    assert InstanceState.from_dict(STATE).ports == Ports()


@pytest.mark.parametrize("committed", [True, False])
def test_a_taken_port_is_named_with_what_to_do(committed):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        asked = Ports() if committed else Ports(port=number)
        kept = Ports(port=number) if committed else Ports()
        clock = FakeClock()
        clock.advance(0.0)
        with pytest.raises(ClusterError) as caught:
            await_free("127.0.0.1", asked, kept, data_dir="/data", clock=_Hurrying())
        assert f"Port {number}" in caught.value.message
        named = "appliance down --data-dir /data" if committed else "--port"
        assert named in caught.value.hint
    await_free("127.0.0.1", asked, kept, data_dir="/data", clock=_Hurrying())


class _Hurrying(FakeClock):
    """Time passes at each look."""

    def monotonic_seconds(self) -> float:
        self.advance(1.0)
        return super().monotonic_seconds()
