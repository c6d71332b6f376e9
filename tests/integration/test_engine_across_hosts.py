"""The engine's pods, declared to be on different hosts: the same bits over the network."""

import dataclasses

import pytest

from appliance.core.cluster.run import RunSchedule
from appliance.core.plans.loads.kept import kept_loads
from appliance.core.plans.loads.packed import streamed_type
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.sparse.as_executed import as_executed
from protos.wsc.v1 import pods_pb2
from tests.support.engine import make_engine, separate_hosts
from tests.support.faulty_network import Line, two_hosts
from tests.support.masked_plans import TIED, masked_data, masked_plan
from tests.support.narrow_plans import GPT, narrow_plan
from tests.support.plans import two_layer_data, two_layer_plan
from tests.support.pod_processes import SECONDS

pytestmark = pytest.mark.slow

COPIED = "wsc_swarmx_broadcast_copied_bytes"
INPUT_AND_SYSTEM = ("activation", "chief")


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


def test_four_swarmx_pods_on_one_host_or_many_compute_the_bits_of_one(tmp_path):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    plans = [plan, dataclasses.replace(plan, micro_batch_size=5)]
    state, batches = two_layer_data(plan, num_steps=6)
    runs = {}
    trees = {"one": (16, {}), "tree": (2, {}), "apart": (2, separate_hosts(5, fan_out=2))}
    for name, (fan_out, hosts) in trees.items():
        (tmp_path / name).mkdir()
        with make_engine(tmp_path / name, num_systems=5, fan_out=fan_out, hosts=hosts) as engine:
            assert len(engine.swarmx) == (1 if name == "one" else 4)
            runs[name] = [
                engine.run(each, state, batches, session=number, checkpoint_steps=[6])
                for number, each in enumerate(plans, start=1)
            ]
            assert engine.job.coordinator.failures.empty()
    for one, *others in zip(*runs.values(), strict=True):
        want = one.readings["broadcastreduce", 0][COPIED]
        assert want > 0
        for other in others:
            assert_same_bits(one, other)
            found = [other.readings["broadcastreduce", pod][COPIED] for pod in range(4)]
            assert found == [want] * 4


def test_weights_cross_once_to_a_host_with_several_systems(tmp_path):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=6)
    apart = separate_hosts(3)
    together = {**apart, **{f"{role}-2": "csx-1" for role in INPUT_AND_SYSTEM}}
    runs = {}
    for name, hosts in (("apart", apart), ("together", together)):
        (tmp_path / name).mkdir()
        with make_engine(tmp_path / name, num_systems=3, hosts=hosts) as engine:
            runs[name] = engine.run(plan, state, batches, checkpoint_steps=[6])
            assert engine.job.coordinator.failures.empty()
    assert_same_bits(*runs.values())
    sent = {
        name: run.readings["broadcastreduce", 0]["wsc_swarmx_broadcast_sent_bytes"]
        for name, run in runs.items()
    }
    copied = runs["apart"].readings["broadcastreduce", 0][COPIED]
    assert sent["apart"] / 3 == pytest.approx(copied, rel=0.01)  # beside padding
    assert sent["together"] * 3 == sent["apart"] * 2


def test_pods_of_a_tree_and_systems_on_one_host_get_weights_together(tmp_path):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=4)
    apart = separate_hosts(3, fan_out=2)
    moved = ["broadcastreduce-1", *(f"{role}-{n}" for role in INPUT_AND_SYSTEM for n in range(3))]
    together = {**apart, **dict.fromkeys(moved, "csx")}
    runs = []
    for number, hosts in enumerate((apart, together)):
        directory = tmp_path / str(number)
        directory.mkdir()
        with make_engine(directory, num_systems=3, fan_out=2, hosts=hosts) as engine:
            runs.append(engine.run(plan, state, batches, checkpoint_steps=[4]))
            assert engine.job.coordinator.failures.empty()
    assert_same_bits(*runs)
    sent = "wsc_swarmx_broadcast_sent_bytes"
    first, second = (run.readings["broadcastreduce", 0][sent] for run in runs)
    assert first == 2 * second > 0
    assert runs[1].readings["broadcastreduce", 1][sent] == 0


def saved_by_keeping(plan, kept_bytes):
    """Return the bytes that are not sent again in each step."""
    plan = as_executed(plan, 1)
    order = visits(plan, 3)
    loads = [name for visit in order for name in plan.layer_steps[visit.layer_step].loads]
    kept = kept_loads(plan, order, kept_bytes)
    return sum(streamed_type(plan, n).num_bytes * (loads.count(n) - 1) for n in kept)


@pytest.mark.parametrize("kind", ["float32", "narrow", "sparse"])
def test_weights_kept_for_the_backward_pass_are_sent_once_and_change_no_bit(tmp_path, kind):
    plan = {"float32": masked_plan(text=GPT), "narrow": narrow_plan()}.get(kind)
    if plan is None:  # one of its masked weights is whole, and loaded three times
        plan = masked_plan(text=TIED)
        plan = dataclasses.replace(plan, sparse=plan.sparse[1:])
    state, batches = masked_data(plan, density=0.3, num_steps=4)
    runs, limits = [], (0, 1 << 10, 1 << 30)
    for number, kept_bytes in enumerate(limits):
        directory = tmp_path / str(number)
        directory.mkdir()
        options = {"hosts": separate_hosts(3, fan_out=2), "keep_weight_bytes": str(kept_bytes)}
        with make_engine(directory, num_systems=3, fan_out=2, **options) as engine:
            runs.append(engine.run(plan, state, batches, checkpoint_steps=[4]))
            assert engine.job.coordinator.failures.empty()
    none, *others = runs
    for run, limit in zip(others, limits[1:], strict=True):
        assert 0 < run.readings["chief", 2]["wsc_csx_kept_weight_bytes"] <= limit
        copied = [each.readings["broadcastreduce", 0][COPIED] for each in (none, run)]
        assert copied[0] - copied[1] == 4 * saved_by_keeping(plan, limit)
        assert_same_bits(none, run)


def test_a_killed_inner_swarmx_pod_is_named_by_its_peers(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=1)
    endless = RunSchedule(num_steps=10**9, output_interval=0, checkpoint_steps=frozenset())
    with make_engine(tmp_path, num_systems=3, fan_out=2) as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches, endless=True)
        engine.start(plan, endless)
        engine.job.coordinator.wait_for_step("wsjob-test-weight-0", 2)
        victim = engine.swarmx[1]
        victim.process.kill()
        report = engine.job.coordinator.failures.get(timeout=SECONDS)
        assert "wsjob-test-broadcastreduce-1" in report.message
        for pod in engine.pods:
            if pod is not victim:
                pod.pod.Finish(
                    pods_pb2.FinishRequest(session=1, wait_for_steps=True), timeout=SECONDS
                )
        reports = [report.message, *(other.message for other in engine.job.drain_failures())]
        assert all("wsjob-test-broadcastreduce-1" in message for message in reports)


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
