"""MemoryX whose state lies in a file: same bits, nothing left behind, and more than its memory."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import grpc
import numpy as np
import pytest

from appliance.core.cluster.run import RunSchedule
from appliance.core.pods.pod_options import StreamMode
from appliance.streams import stream_topology as topology
from protos.wsc.v1 import pods_pb2
from tests.support.appliance_process import wait_for
from tests.support.engine import make_engine
from tests.support.memory_group import memory_group
from tests.support.plans import deep_plan, two_layer_data, two_layer_plan, two_layer_reference
from workers.memoryx.tensor_store import tensor_bytes

pytestmark = pytest.mark.slow

DISK = {"memory_bytes": "1"}


def files_of(pid):
    """Return what the open files of a process are."""
    found = []
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed by now
            found.append(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return found


@pytest.mark.parametrize("streams", StreamMode)
def test_state_in_a_file_gives_the_bits_of_state_in_memory(tmp_path, streams):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=12)
    runs = []
    for name, options in (("memory", {}), ("disk", DISK)):
        directory = tmp_path / name
        directory.mkdir()
        with make_engine(directory, num_systems=2, streams=streams.value, **options) as engine:
            runs.append(engine.run(plan, state, batches, checkpoint_steps=[12]))
            weight = engine.weight.process.pid
            nameless = f"{engine.job.work_dir}/#"
            has_file = any(file.startswith(nameless) for file in files_of(weight))
            assert has_file == (name == "disk")
        kept = {path.name for path in (directory / "work").iterdir()}
        assert {name for name in kept if not name.endswith(".json")} == {"logs"}
    memory, disk = runs
    assert memory.readings["weight", 0]["wsc_memoryx_state_on_disk"] == 0
    assert disk.readings["weight", 0]["wsc_memoryx_state_on_disk"] == 1
    for first, second in zip(memory.outputs, disk.outputs, strict=True):
        for name, tensor in first.items():
            assert tensor.tobytes() == second[name].tobytes()
    for name, tensor in memory.snapshots[12].items():
        assert tensor.tobytes() == disk.snapshots[12][name].tobytes()


def test_a_checkpoint_is_fetched_while_the_steps_go_on(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=40)
    schedule = RunSchedule(
        num_steps=len(batches), output_interval=0, checkpoint_steps=frozenset({3, 20, 30, 31})
    )
    with make_engine(tmp_path, num_systems=2) as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches)
        engine.start(plan, schedule)
        for number in sorted(schedule.checkpoint_steps):
            _, want = two_layer_reference(state, batches[:number])
            found = wait_for_snapshot(engine, plan, number)
            for name, tensor in want.items():
                np.testing.assert_allclose(found[name], tensor, rtol=1e-4, atol=1e-5)
            release = pods_pb2.ReleaseSnapshotRequest(session=1, step=number)
            engine.weight.memoryx.ReleaseSnapshot(release)
        engine.outputs()
        copied = engine.readings(engine.weight)["wsc_memoryx_snapshot_copied_bytes"]
        assert 0 < copied <= 4 * sum(tensor.type.num_bytes for tensor in plan.state)
        assert engine.finish() == [len(batches)] * len(engine.pods)


def wait_for_snapshot(engine, plan, number):
    """Return a snapshot as soon as it is there."""
    found = {}

    def is_there():
        try:
            found.update(engine.snapshot(plan, number))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
        return bool(found)

    wait_for(is_there, what=f"the snapshot of step {number}")
    return found


def flip(engine, plan, name, byte):
    """Change one bit of a state tensor in its file, as a disk does."""
    weight = engine.weight.process.pid
    items = {item.name: item for item in topology.state_layout(plan).items}
    value = next(tensor.value for tensor in plan.state if tensor.resource_name == name)
    place = items[value].offset + byte
    for descriptor in os.listdir(f"/proc/{weight}/fd"):
        path = f"/proc/{weight}/fd/{descriptor}"
        if os.readlink(path).startswith(f"{engine.job.work_dir}/#"):
            file = os.open(path, os.O_RDWR)
            try:
                if os.fstat(file).st_size == topology.state_layout(plan).num_bytes:
                    (found,) = os.pread(file, 1, place)
                    os.pwrite(file, bytes([found ^ 64]), place)
                    return place
            finally:
                os.close(file)
    raise AssertionError("no file of state is open")


@pytest.mark.parametrize("streams", StreamMode)
@pytest.mark.parametrize("name", ["w4", "w7"])
def test_a_flipped_bit_ends_the_job_and_is_named(tmp_path, streams, name):
    """While the third step waits for its batch, and has not announced the tensor yet."""
    plan, num_steps, go_on = deep_plan(num_layers=8, width=64), 4, threading.Event()
    batch = {"h0": np.ones((2, 64), dtype=np.float32)}
    state = {t.resource_name: np.zeros(t.type.shape, dtype=np.float32) for t in plan.state}

    def batches():
        yield from [batch] * 2
        go_on.wait()
        yield from [batch] * (num_steps - 2)

    schedule = RunSchedule(
        num_steps=num_steps, output_interval=0, checkpoint_steps=frozenset({2, num_steps})
    )
    with make_engine(tmp_path, num_systems=1, streams=streams.value, **DISK) as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches())
        engine.start(plan, schedule)
        wait_for_snapshot(engine, plan, 2)
        place = flip(engine, plan, name, 5)
        go_on.set()
        report = engine.job.coordinator.failures.get(timeout=60)
    assert report.pod == "wsjob-test-weight-0"
    assert f"State tensor {name!r} is not what was written: bytes 0 to 16,383 " in report.message
    where = f"at offset {place - 5:,} of a file without a name in {engine.job.work_dir}"
    assert where in report.message


def test_a_checkpoint_is_not_made_of_a_flipped_bit(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=3)
    schedule = RunSchedule(num_steps=3, output_interval=0, checkpoint_steps=frozenset({3}))
    name = plan.state[0].resource_name
    with make_engine(tmp_path, num_systems=1, **DISK) as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches)
        engine.start(plan, schedule)
        wait_for_snapshot(engine, plan, 3)
        engine.outputs()
        flip(engine, plan, name, 5)
        with pytest.raises(grpc.RpcError, match=f"State tensor {name!r} is not what was written"):
            engine.snapshot(plan, 3)


def test_a_killed_pod_leaves_no_file(tmp_path):
    plan = two_layer_plan()
    with make_engine(tmp_path, num_systems=1, **DISK) as engine:
        engine.load(plan)
        os.kill(engine.weight.process.pid, signal.SIGKILL)
        engine.weight.wait()
        kept = {path.name for path in engine.job.work_dir.iterdir()}
        assert {name for name in kept if not name.endswith(".json")} == {"logs"}


def test_tensors_of_twice_the_memory_of_all_pods_train(tmp_path):
    limit, width = 640 << 20, 2048
    plan = deep_plan(num_layers=81, width=width)
    assert tensor_bytes(plan) > 2 * limit
    batches = [{"h0": np.ones((2, width), dtype=np.float32)}] * 2
    schedule = RunSchedule(num_steps=2, output_interval=0, checkpoint_steps=frozenset())
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(memory_group())
        group.limit(limit)
        with group.joined():
            engine = stack.enter_context(
                make_engine(tmp_path, num_systems=1, own_interpreters=True)
            )
            engine.load(plan)
            fill = [sys.executable, "-m", "tests.support.fill_store"]
            address = engine.address(1, topology.store(0))
            names = [tensor.value for tensor in plan.state]
            subprocess.run([*fill, address, *names], check=True, timeout=600)
        request = pods_pb2.CommitIngestRequest(session=1, resource_names=names)
        assert engine.weight.memoryx.CommitIngest(request).num_missing == 0
        engine.feed(plan, batches)
        engine.start(plan, schedule)
        assert engine.outputs(600) != []
        assert engine.readings(engine.weight)["wsc_memoryx_state_on_disk"] == 1
        assert engine.finish() == [2] * len(engine.pods)
        assert group.num_failures() == 0
