"""A ring of another node, as its readers on one node have it."""

from types import SimpleNamespace

import pytest

from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_spec import PodSpec
from appliance.streams import endpoint
from appliance.streams.endpoint import StreamEndpoint
from tests.support.clock import FakeClock

NODES = {"broadcastreduce-0": "a", "chief-0": "b", "chief-1": "c", "chief-2": "c"}
MEASURES = {"num_slots": 3, "slot_bytes": 64, "label": "wsjob-a-broadcastreduce-0"}


@pytest.fixture
def made(monkeypatch):
    """What the local end of each received ring was asked to be."""
    asked = []

    def local_ring(address, **options):
        asked.append({"address": address, **options})
        return None, "reader"

    receiver = SimpleNamespace(
        connect=lambda seconds: MEASURES, start=lambda *_: None, close=lambda: None
    )
    monkeypatch.setattr(endpoint, "Receiver", lambda *_, **__: receiver)
    monkeypatch.setattr(endpoint, "local_ring", local_ring)
    return asked


def connect(index, tmp_path):
    spec = PodSpec(
        job=JobId("wsjob-a"),
        role=Role.CHIEF,
        index=index,
        runtime_dir=tmp_path,
        work_dir=tmp_path,
        management_address="",
        nodes=NODES,
    )
    end = StreamEndpoint(spec, clock=FakeClock(), on_failure=lambda error: None)
    end.meet(dict.fromkeys(NODES, "127.0.0.1:1"))
    return end, end.connect_ring(1, "broadcast-0", readers=("chief-0", "chief-1", "chief-2"))


def test_the_only_reader_of_a_node_has_the_ring_by_its_writers_name(made, tmp_path):
    _, reader = connect(0, tmp_path)
    (ring,) = made
    assert reader == "reader"
    assert (ring["address"], ring["name"], ring["num_readers"]) == (None, "broadcast-0", 1)
    assert (ring["owner"], ring["reader"]) == ("wsjob-a-broadcastreduce-0", "wsjob-a-chief-0")


def test_the_first_of_several_readers_serves_the_ring_to_the_others(made, tmp_path):
    end, _ = connect(1, tmp_path)
    (ring,) = made
    assert (ring["name"], ring["num_readers"]) == ("relay-chief-1", 2)
    assert ring["address"] == end.address(1, "relay-chief-1")
    assert (ring["owner"], ring["reader"]) == ("wsjob-a-chief-1", "wsjob-a-chief-1")
