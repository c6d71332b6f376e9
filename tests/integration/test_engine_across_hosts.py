"""The engine's pods, declared to be on different hosts: the same bits over the network."""

import pytest

from tests.support.engine import make_engine, separate_hosts
from tests.support.faulty_network import Line, two_hosts
from tests.support.plans import two_layer_data, two_layer_plan

pytestmark = pytest.mark.slow


def test_pods_on_different_hosts_compute_the_same_bits(tmp_path):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=10)
    runs = []
    for name, hosts in (("one", {}), ("many", separate_hosts(2))):
        (tmp_path / name).mkdir()
        with make_engine(tmp_path / name, num_systems=2, hosts=hosts) as engine:
            runs.append(engine.run(plan, state, batches, checkpoint_steps=[5, 10]))
            assert engine.job.coordinator.failures.empty()
            reached = [
                request.stream_address for request in engine.job.coordinator.registered.values()
            ]
            assert all(reached) == bool(hosts)
    assert_same_bits(*runs)


def assert_same_bits(one, other):
    for here, there in zip(one.outputs, other.outputs, strict=True):
        for name, tensor in here.items():
            assert tensor.tobytes() == there[name].tobytes(), name
    for number, snapshot in one.snapshots.items():
        for name, tensor in snapshot.items():
            assert tensor.tobytes() == other.snapshots[number][name].tobytes(), name


def test_a_bad_line_between_hosts_changes_no_bit(tmp_path):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=4)
    line = Line(delay_seconds=0.05, loss=0.01, cut_after_packets=400, cut_seconds=5.0)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with make_engine(tmp_path / "one", num_systems=2) as engine:
        want = engine.run(plan, state, batches, checkpoint_steps=[4])
    with two_hosts(line) as (places, counts):
        hosts = {
            name: "a" if name in ("weight-0", "broadcastreduce-0") else "b"
            for name in separate_hosts(2)
        }
        with make_engine(
            tmp_path / "two",
            num_systems=2,
            hosts=hosts,
            places=dict(zip("ab", places, strict=True)),
        ) as engine:
            got = engine.run(plan, state, batches, checkpoint_steps=[4])
            assert engine.job.coordinator.failures.empty()
        num_passed, num_lost, num_cut = counts
    assert num_passed > 400
    assert num_lost > 0
    assert num_cut > 0
    assert_same_bits(want, got)
