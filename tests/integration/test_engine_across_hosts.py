"""The engine's pods, declared to be on different hosts: the same bits over the network."""

import pytest

from tests.support.engine import make_engine, separate_hosts
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
    for here, there in zip(runs[0].outputs, runs[1].outputs, strict=True):
        for name, tensor in here.items():
            assert tensor.tobytes() == there[name].tobytes(), name
    for number, snapshot in runs[0].snapshots.items():
        for name, tensor in snapshot.items():
            assert tensor.tobytes() == runs[1].snapshots[number][name].tobytes(), name
