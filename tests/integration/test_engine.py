"""MemoryX, SwarmX and CS-2s as real processes, running whole plans."""

import dataclasses
import json
import os
import platform
import signal

import grpc
import numpy as np
import pytest
import torch

from appliance.coordinator.run.kernel_selection import KernelTable
from appliance.core.cluster.run import RunSchedule
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import Precision
from appliance.core.pods.pod_options import StreamMode
from appliance.streams import stream_topology as topology
from appliance.streams.slot_layout import ALIGNMENT_BYTES
from appliance.streams.store import attach_store
from protos.wsc.v1 import pods_pb2
from tests.support.engine import make_engine, of_processors
from tests.support.plans import deep_plan, two_layer_data, two_layer_plan, two_layer_reference
from tests.support.pod_processes import SECONDS
from tests.support.two_strands import TWO_STRANDS

pytestmark = pytest.mark.slow


def assert_close(tensors, want):
    for name, tensor in want.items():
        np.testing.assert_allclose(tensors[name], tensor, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("num_systems", [1, 2, 3])
def test_every_number_of_systems_gives_the_numbers_of_plain_torch(tmp_path, num_systems):
    plan = two_layer_plan(batch_size=5)
    state, batches = two_layer_data(plan, num_steps=6)
    want_outputs, want_state = two_layer_reference(state, batches)
    with make_engine(tmp_path, num_systems=num_systems) as engine:
        result = engine.run(plan, state, batches, checkpoint_steps=[6])
        assert engine.job.coordinator.failures.empty()
    assert [int(outputs["step"]) for outputs in result.outputs] == list(range(6))
    for outputs, want in zip(result.outputs, want_outputs, strict=True):
        assert_close(outputs, want)
    assert_close(result.snapshots[6], want_state)
    for system in range(num_systems):
        readings = result.readings["chief", system]
        assert readings["wsc_csx_layer_steps_held_peak"] <= 2
        assert readings["wsc_csx_layer_steps_held"] == 0
        assert readings["wsc_csx_weight_peak_bytes"] <= 4 * (16 * 8 + 4 * 16) + 64


@pytest.mark.parametrize(("num_systems", "micro_batch_size"), [(1, 2), (2, 1), (3, 1)])
def test_micro_batches_give_the_numbers_of_plain_torch(tmp_path, num_systems, micro_batch_size):
    plan = two_layer_plan(batch_size=5)
    plan = dataclasses.replace(plan, micro_batch_size=micro_batch_size)
    state, batches = two_layer_data(plan, num_steps=6)
    want_outputs, want_state = two_layer_reference(state, batches)
    with make_engine(tmp_path, num_systems=num_systems) as engine:
        result = engine.run(plan, state, batches, checkpoint_steps=[6])
        assert engine.job.coordinator.failures.empty()
    for outputs, want in zip(result.outputs, want_outputs, strict=True):
        assert_close(outputs, want)
    assert_close(result.snapshots[6], want_state)
    for system in range(num_systems):
        assert result.readings["chief", system]["wsc_csx_layer_steps_held_peak"] <= 2


@of_processors
def test_two_strands_of_a_system_give_the_bits_of_two_systems(tmp_path):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=20)
    found = []
    for name, num_systems, options in (
        ("systems", 2, {"threads": "1"}),
        ("ring", 1, TWO_STRANDS),
        ("mapped", 1, {**TWO_STRANDS, "streams": "mapped"}),
    ):
        directory = tmp_path / name
        directory.mkdir()
        with make_engine(directory, num_systems=num_systems, **options) as engine:
            result = engine.run(plan, state, batches, checkpoint_steps=[20])
            assert engine.job.coordinator.failures.empty()
        assert result.readings["chief", 0]["wsc_csx_layer_steps_held_peak"] <= 2
        tensors = [*result.outputs, result.snapshots[20]]
        found.append([{n: value.tobytes() for n, value in each.items()} for each in tensors])
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_two_runs_give_the_same_bits(tmp_path):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=20)
    with make_engine(tmp_path, num_systems=3) as engine:
        runs = [
            engine.run(plan, state, batches, session=session, checkpoint_steps=[10, 20])
            for session in (1, 2)
        ]
    for first, second in zip(runs[0].outputs, runs[1].outputs, strict=True):
        for name, tensor in first.items():
            assert tensor.tobytes() == second[name].tobytes()
    for number, first in runs[0].snapshots.items():
        for name, tensor in first.items():
            assert tensor.tobytes() == runs[1].snapshots[number][name].tobytes()


@of_processors
@pytest.mark.skipif(platform.machine() != "x86_64", reason="there is one library alone")
def test_systems_compute_by_the_library_that_was_measured_and_again_by_the_same(tmp_path):
    plan = two_layer_plan(batch_size=64, features=384, hidden=512, classes=256)
    state, batches = two_layer_data(plan, num_steps=3)
    want_outputs, _ = two_layer_reference(state, batches)
    table = KernelTable(tmp_path / "kernels")
    runs = []
    with make_engine(tmp_path, num_systems=2) as engine:
        runs += [engine.run(plan, state, batches, session=each, kernels=table) for each in (1, 2)]
        measured = list(table.measured())
        assert {str(entry.problem) for entry in measured} == {
            "product-nt 32x384x512",  # the first layer's
            "product-nt 32x512x256",  # the second's, and what goes back through it
            "product-nn 32x256x512",
            "product-tn 512x32x384",  # gradients of weights
            "product-tn 256x32x512",
        }
        assert {entry.num_threads for entry in measured} == {1}
        # What a table says is what systems compute by, whatever they would measure.
        (path,) = (tmp_path / "kernels").glob("*.json")
        for session, library in ((3, "pytorch"), (4, "openblas")):
            whole = json.loads(path.read_text())
            for entry in whole["by_threads"]["1"].values():
                entry["chosen"] = library
            path.write_text(json.dumps(whole))
            runs.append(engine.run(plan, state, batches, session=session, kernels=table))
        assert engine.job.coordinator.failures.empty()
        logs = [chief.log() for chief in engine.chiefs]
    measured_by = [log.count("Libraries timed") for log in logs]
    assert measured_by == [5, 0], "the first system measures each problem once"
    for log in logs:
        *_, third, fourth = [line for line in log.splitlines() if "Libraries chosen" in line]
        assert (third.count("pytorch"), third.count("openblas")) == (5, 0)
        assert (fourth.count("pytorch"), fourth.count("openblas")) == (0, 5)
    bits = [b"".join(out["output_w2"].tobytes() for out in run.outputs) for run in runs]
    assert bits[1] == bits[0]
    for run in runs:
        for outputs, want in zip(run.outputs, want_outputs, strict=True):
            for name, tensor in want.items():
                most = 1e-4 * np.abs(tensor).max()
                np.testing.assert_allclose(outputs[name], tensor, atol=most, err_msg=name)


@pytest.mark.parametrize("num_systems", [1, 2])
def test_a_mapped_store_copies_nothing_and_gives_the_bits_of_the_ring(tmp_path, num_systems):
    plan = two_layer_plan(batch_size=64, features=96, hidden=160, classes=32)
    state, batches = two_layer_data(plan, num_steps=12)
    loads = [topology.load_layout(plan, step.loads) for step in plan.layer_steps]
    sizes = [item.type.num_bytes for layout in loads for item in layout.items]
    runs = {}
    for mode in StreamMode:
        directory = tmp_path / mode.value
        directory.mkdir()
        with make_engine(directory, num_systems=num_systems, streams=mode.value) as engine:
            runs[mode] = engine.run(plan, state, batches, checkpoint_steps=[12])
    ring, mapped = runs[StreamMode.RING], runs[StreamMode.MAPPED]
    copied = {
        mode: run.readings["broadcastreduce", 0]["wsc_swarmx_broadcast_copied_bytes"]
        for mode, run in runs.items()
    }
    padding = ALIGNMENT_BYTES * len(sizes)
    assert copied[StreamMode.MAPPED] == 0
    assert 0 <= copied[StreamMode.RING] - len(batches) * sum(sizes) <= 12 * padding
    for first, second in zip(ring.outputs, mapped.outputs, strict=True):
        for name, tensor in first.items():
            assert tensor.tobytes() == second[name].tobytes()
    for name, tensor in ring.snapshots[12].items():
        assert tensor.tobytes() == mapped.snapshots[12][name].tobytes()


def test_outputs_come_at_the_interval_and_at_the_last_step(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=8)
    want, _ = two_layer_reference(state, batches)
    with make_engine(tmp_path, num_systems=1) as engine:
        result = engine.run(plan, state, batches, output_interval=3)
    assert [int(outputs["step"]) for outputs in result.outputs] == [2, 5, 7]
    assert_close(result.outputs[1], want[5])


def test_a_persistent_tensor_is_carried_over_to_the_next_session(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=6)
    _, want = two_layer_reference(state, batches)
    with make_engine(tmp_path, num_systems=2) as engine:
        engine.run(plan, state, batches[:3])
        memoryx = engine.weight.memoryx
        for number, name in enumerate(state):
            tensor = pods_pb2.PersistentTensor(session=1, resource_name=name, persistent_id=number)
            memoryx.MoveToPersistent(tensor)
        engine.load(plan, 2)
        assert engine.ingest(plan, {}, 2) == 3
        for number, name in enumerate(state):
            tensor = pods_pb2.PersistentTensor(session=2, resource_name=name, persistent_id=number)
            memoryx.CarryOver(tensor)
        assert engine.ingest(plan, {}, 2) == 0
        schedule = RunSchedule(num_steps=3, output_interval=0, checkpoint_steps=frozenset({3}))
        engine.feed(plan, batches[3:], 2)
        engine.start(plan, schedule, 2)
        assert len(engine.outputs()) == 1
        engine.finish(2)
        assert_close(engine.snapshot(plan, 3, 2), want)

        tensor = pods_pb2.PersistentTensor(session=2, resource_name="w", persistent_id=0)
        assert list(memoryx.ExposePersistent(tensor).shape) == [16, 8]
        with attach_store(engine.address(2, topology.store(0))) as store:
            memory = store.attach(topology.persistent_segment(0))
            exposed = store.layout(topology.persistent_segment(0)).items[0].view(memory)
            _, after_three = two_layer_reference(state, batches[:3])
            assert_close({"w": exposed}, {"w": after_three["state.w1"]})
        memoryx.DeletePersistent(tensor)
        with pytest.raises(grpc.RpcError) as refused:
            memoryx.ExposePersistent(tensor)
        assert refused.value.details() == "The job has no persistent tensor 0."


def test_a_released_snapshot_is_gone(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=2)
    with make_engine(tmp_path, num_systems=1) as engine:
        engine.run(plan, state, batches, checkpoint_steps=[1])
        release = pods_pb2.ReleaseSnapshotRequest(session=1, step=1)
        engine.weight.memoryx.ReleaseSnapshot(release)
        with pytest.raises(grpc.RpcError) as refused:
            engine.weight.memoryx.ReleaseSnapshot(release)
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_steps_do_not_begin_before_every_state_tensor_has_a_value(tmp_path):
    plan = two_layer_plan()
    state, _ = two_layer_data(plan, num_steps=1)
    del state["state.w2"]
    with make_engine(tmp_path, num_systems=1) as engine:
        engine.load(plan)
        assert engine.ingest(plan, state) == 1
        with pytest.raises(grpc.RpcError) as refused:
            engine.weight.pod.Start(pods_pb2.StartRequest(session=1, num_steps=1))
    assert refused.value.details() == ("1 of 3 state tensors have no value, 'state.w2' among them.")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_session_says_that_the_device_of_its_systems_is_missing(tmp_path):
    with make_engine(tmp_path, num_systems=1, device="cuda") as engine:
        with pytest.raises(grpc.RpcError) as refused:
            engine.load(two_layer_plan())
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "finds no such device on this node" in refused.value.details()


def test_a_nan_is_a_result_like_any_other(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=3)
    batches[1]["x"][:] = np.nan
    with make_engine(tmp_path, num_systems=2) as engine:
        result = engine.run(plan, state, batches)
    losses = [float(outputs["output_loss"]) for outputs in result.outputs]
    assert np.isfinite(losses[0])
    assert np.isnan(losses[2])


def test_exact_sums_of_a_16_bit_type_are_rounded_to_it(tmp_path):
    bf16 = TensorType((), DType.BF16)
    plan = two_layer_plan(precision=Precision.EXACT, types={"loss_part": bf16, "loss_sum": bf16})
    state, batches = two_layer_data(plan, num_steps=5)
    want, _ = two_layer_reference(state, batches)
    with make_engine(tmp_path, num_systems=2) as engine:
        result = engine.run(plan, state, batches)
    for outputs, step in zip(result.outputs, want, strict=True):
        found = 2 * torch.tensor(outputs["output_loss"])
        assert found == found.to(torch.bfloat16)
        np.testing.assert_allclose(outputs["output_loss"], step["output_loss"], rtol=2**-7)


@of_processors  # a driver maps shared memory of its own
def test_the_memory_of_a_worker_does_not_grow_with_depth(tmp_path):
    readings = []
    for num_layers in (4, 24):
        plan = deep_plan(num_layers=num_layers, width=512)
        generator = np.random.default_rng(1)
        state = {
            tensor.resource_name: 0.05 * generator.standard_normal(tensor.type.shape)
            for tensor in plan.state
        }
        batches = [{"h0": generator.standard_normal((2, 512))} for _ in range(4)]
        directory = tmp_path / str(num_layers)
        directory.mkdir()
        with make_engine(directory, num_systems=2) as engine:
            readings.append(engine.run(plan, state, batches).readings["chief", 0])
    shallow, deep = readings
    layer_bytes = 4 * 512 * 512
    for reading in readings:
        assert reading["wsc_csx_weight_peak_bytes"] == 2 * layer_bytes
        # Three slots each of the broadcast and the gradient ring, and the batches.
        assert reading["wsc_pod_shared_bytes"] < 6.5 * layer_bytes
    grown = deep["wsc_pod_anonymous_bytes"] - shallow["wsc_pod_anonymous_bytes"]
    assert grown < 4 * layer_bytes, "twenty more layers would be 20 times this size"


def test_abandoning_a_session_leaves_the_pods_ready_for_another(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=4)
    want, _ = two_layer_reference(state, batches)
    with make_engine(tmp_path, num_systems=2) as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches, endless=True)
        engine.start(
            plan, RunSchedule(num_steps=9, output_interval=1, checkpoint_steps=frozenset())
        )
        engine.finish(wait_for_steps=False)
        result = engine.run(plan, state, batches, session=2)
        assert engine.job.coordinator.failures.empty()
        for process in engine.pods:
            process.pod.Stop(pods_pb2.StopRequest())
        assert [process.wait() for process in engine.pods] == [0] * 4
        assert engine.job.stream_files() == []
    assert_close(result.outputs[-1], want[-1])


@pytest.mark.parametrize("victim", ["weight-0", "broadcastreduce-0", "chief-1"])
def test_a_killed_pod_is_named_by_its_peers(tmp_path, victim):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=1)
    endless = RunSchedule(num_steps=10**9, output_interval=0, checkpoint_steps=frozenset())
    with make_engine(tmp_path, num_systems=2) as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches, endless=True)
        engine.start(plan, endless)
        pods = {f"{pod.spec.role.value}-{pod.spec.index}": pod for pod in engine.pods}
        engine.job.coordinator.wait_for_step("wsjob-test-weight-0", 2)
        os.kill(pods[victim].process.pid, signal.SIGKILL)
        report = engine.job.coordinator.failures.get(timeout=SECONDS)
        assert f"wsjob-test-{victim}" in report.message
        survivors = [pod for name, pod in pods.items() if name != victim]
        for pod in survivors:
            request = pods_pb2.FinishRequest(session=1, wait_for_steps=True)
            pod.pod.Finish(request, timeout=SECONDS)
            pod.pod.Stop(pods_pb2.StopRequest())
        assert [pod.wait() for pod in survivors] == [0] * 3
        engine.stop_feeding()
        reports = [report.message, *(other.message for other in engine.job.drain_failures())]
        assert all(f"wsjob-test-{victim}" in message for message in reports)
        assert not [name for name in engine.job.stream_files() if "store" not in name]


def test_an_input_that_ends_early_is_named_with_the_step(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=2)
    with make_engine(tmp_path, num_systems=1) as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches[:1])
        engine.start(
            plan, RunSchedule(num_steps=2, output_interval=0, checkpoint_steps=frozenset())
        )
        report = engine.job.coordinator.failures.get(timeout=SECONDS)
        assert report.message == "Stream 'batches-0' ended before step 2."
        engine.finish()


def test_a_paced_run_takes_as_long_as_its_simulated_time_times_the_factor(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=4)
    with make_engine(tmp_path, num_systems=2, machine="CS-3", pace="100") as engine:
        result = engine.run(plan, state, batches)
    for system in range(2):
        readings = result.readings["chief", system]
        simulated_seconds = readings["wsc_csx_simulated_seconds"]
        assert simulated_seconds == pytest.approx(4 * readings["wsc_csx_simulated_step_seconds"])
        assert readings["wsc_csx_wall_seconds"] >= 100 * simulated_seconds
        assert readings["wsc_csx_pace_wait_seconds"] > 0


def test_a_paced_run_can_be_given_up_at_once(tmp_path):
    plan = two_layer_plan()
    state, batches = two_layer_data(plan, num_steps=2)
    with make_engine(tmp_path, num_systems=1, pace="1e6") as engine:
        engine.load(plan)
        engine.ingest(plan, state)
        engine.feed(plan, batches)
        engine.start(
            plan, RunSchedule(num_steps=2, output_interval=1, checkpoint_steps=frozenset())
        )
        assert engine.finish(wait_for_steps=False)[-1] <= 1
