"""Input pods deliver the batches of the real streamer, in order, to the right system."""

import json
import os
import signal
import uuid
from pathlib import Path

import numpy as np
import pytest

from appliance.core.ir.sharding import split_batch
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.pods.pod_spec import stream_address
from appliance.streams.shared_memory import connect_ring
from appliance.streams.slot_layout import SlotLayout
from protos.appliance.appliance_service_pb2 import RunRequest
from protos.cluster.cluster_pb2 import ExecuteJobRequest
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc
from tests.support.appliance_process import shared_memory_of
from tests.support.pickled_loaders import client_site_packages, pickled_loader
from tests.support.pod_processes import SECONDS, make_job
from tests.support.processes import is_alive, programs_in
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

SUPPORT = Path(__file__).parents[1] / "support"
BATCH_TENSORS = [
    pods_pb2.BatchTensor(input_name="input_0", shape=[5, 2], wire_dtype="f16", dtype="f32"),
    pods_pb2.BatchTensor(input_name="input_1", shape=[5], wire_dtype="i32", dtype="i32"),
    pods_pb2.BatchTensor(input_name="input_2", shape=[5], wire_dtype="i1", dtype="i1"),
]


def run_request(function, num_steps, *, loader_id=1, **arguments):
    builder, inputs = pickled_loader(
        "input_functions", function, json.dumps(arguments), str(SUPPORT)
    )
    request = RunRequest(num_iterations=num_steps, activation_freq=1, live_dataloaders=[loader_id])
    request.dataloader.id = loader_id
    request.dataloader.builder, request.dataloader.builder_inputs = builder, inputs
    return request


class InputGang:
    """The input pods of one job, with the CS-2s played by the test."""

    def __init__(self, job, *, num_systems, workers_per_system):
        self.job, self.num_systems, self.workers = job, num_systems, workers_per_system
        request = ExecuteJobRequest(python_paths=[str(SUPPORT)])
        request.user_sidecar_env.python_path = str(client_site_packages())
        request_path = job.work_dir / "request.bin"
        request_path.write_bytes(request.SerializeToString())
        options = {
            "request_path": str(request_path),
            "num_systems": str(num_systems),
            "workers_per_system": str(workers_per_system),
        }
        self.worker_pods = [
            job.launch("workers.input", "worker", index, **options)
            for index in range(num_systems * workers_per_system)
        ]
        self.activation_pods = [
            job.launch("workers.input", "activation", index) for index in range(num_systems)
        ]
        job.wait_until_registered()
        self.session = 0

    @property
    def pods(self):
        return [*self.worker_pods, *self.activation_pods]

    def load(self, run, *, first_batch=0):
        self.session += 1
        request = pods_pb2.LoadRequest(
            session=self.session,
            num_systems=self.num_systems,
            workers_per_system=self.workers,
            run_request=run.SerializeToString(),
            batch_tensors=BATCH_TENSORS,
            batch_size=5,
            first_batch=first_batch,
        )
        for future in [pod.pod.Load.future(request) for pod in self.pods]:
            future.result()

    def start(self, num_steps):
        request = pods_pb2.StartRequest(session=self.session, num_steps=num_steps)
        for pod in self.pods:
            pod.pod.Start(request)

    def finish(self, *, wait_for_steps=True):
        request = pods_pb2.FinishRequest(session=self.session, wait_for_steps=wait_for_steps)
        for future in [pod.pod.Finish.future(request) for pod in self.pods]:
            future.result()

    def batches(self, num_steps):
        """Return the global batches of a session, put together from the systems' shares."""
        readers = [self._connect(system) for system in range(self.num_systems)]
        batches = []
        for _ in range(num_steps):
            shares = [self._share(system, reader) for system, reader in enumerate(readers)]
            batches.append([np.concatenate(parts) for parts in zip(*shares, strict=True)])
        assert [reader.acquire(SECONDS) for reader in readers] == [None] * self.num_systems
        for reader in readers:
            reader.close()
        return batches

    def _connect(self, system):
        stream = f"batches-{system}"
        address = stream_address(self.job.runtime_dir, self.session, stream)
        return connect_ring(address, name=stream, timeout_seconds=SECONDS)

    def _share(self, system, reader):
        shard = split_batch(5, self.num_systems)[system]
        layout = SlotLayout.of(
            (t.input_name, shard.local_type(TensorType(tuple(t.shape), DType(t.dtype)), 0))
            for t in BATCH_TENSORS
        )
        slot = reader.acquire(SECONDS)
        values = [view.copy() for view in layout.views(slot).values()]
        reader.release()
        return values


def expect_rows(batches, first):
    for number, (rows, labels, flags) in enumerate(batches):
        start = first + 5 * number
        expected = np.arange(start, start + 5)
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(rows, np.stack([expected, expected + 0.5], axis=1))
        np.testing.assert_array_equal(flags, expected % 2 == 0)


@pytest.fixture
def job(tmp_path):
    with make_job(tmp_path, name=f"wsjob-{uuid.uuid4().hex[:8]}") as made:
        yield made


def test_systems_and_workers_share_the_batches_over_two_sessions(job) -> None:
    gang = InputGang(job, num_systems=2, workers_per_system=2)
    gang.load(run_request("rows", 3, num_rows=100, batch_size=5))
    gang.start(3)
    expect_rows(gang.batches(3), first=0)
    gang.finish()
    # The loader cannot be restarted, so it stays alive, and the workers' turn goes on.
    gang.load(run_request("rows", 4, num_rows=100, batch_size=5), first_batch=3)
    gang.start(4)
    expect_rows(gang.batches(4), first=15)
    gang.finish()
    assert shared_memory_of(job.name) == []


def test_a_worker_answers_the_state_of_a_restartable_loader(job) -> None:
    gang = InputGang(job, num_systems=1, workers_per_system=1)
    gang.load(run_request("restartable_rows", 3, num_rows=100, batch_size=5))
    gang.start(3)
    gang.batches(3)
    worker = pods_pb2_grpc.InputWorkerStub(gang.worker_pods[0].channel)
    reply = worker.DataCheckpoint(pods_pb2.DataCheckpointRequest(session=1, step=3))
    (state,) = reply.serialized_states
    assert bytes.fromhex(state)
    gang.finish()


def test_an_error_of_the_dataloader_arrives_with_the_users_traceback(job) -> None:
    gang = InputGang(job, num_systems=1, workers_per_system=1)
    gang.load(run_request("failing_rows", 9, num_rows=100, batch_size=5, after=2))
    gang.start(9)
    failure = job.coordinator.failures.get(timeout=SECONDS)
    assert failure.is_user_error
    assert failure.pod.endswith("worker-0")
    assert "row file is damaged after 2 batches" in failure.message
    assert "in failing_rows" in failure.message


def streamer_pids(gang):
    """Return the streamers of the first input worker, once there is one."""
    found = []

    def are_there():
        found[:] = programs_in(gang.job.runtime_dir / "streamer-0")
        return bool(found)

    wait_until(are_there, seconds=SECONDS, what="a streamer")
    return found


def test_the_streamer_dies_with_a_killed_pod_and_leaves_no_memory(job) -> None:
    gang = InputGang(job, num_systems=1, workers_per_system=1)
    gang.load(run_request("rows", 3, num_rows=100, batch_size=5))
    (streamer,) = streamer_pids(gang)
    gang.worker_pods[0].process.kill()
    gang.worker_pods[0].process.wait()
    wait_until(lambda: not is_alive(streamer), seconds=SECONDS, what="the streamer's end")
    assert shared_memory_of(job.name) == []


def test_a_killed_streamer_is_reported_with_its_signal(job) -> None:
    gang = InputGang(job, num_systems=1, workers_per_system=1)
    (streamer,) = streamer_pids(gang)
    os.kill(streamer, signal.SIGKILL)
    failure = job.coordinator.failures.get(timeout=SECONDS)
    assert "streamer of input worker 0 ended with signal 9" in failure.message


def test_a_session_can_be_given_up_while_a_batch_is_awaited(job) -> None:
    gang = InputGang(job, num_systems=1, workers_per_system=1)
    gang.load(run_request("sleepy_rows", 3, num_rows=100, batch_size=5))
    gang.start(3)
    gang.finish(wait_for_steps=False)
    gang.load(run_request("rows", 2, num_rows=100, batch_size=5, loader_id=2))
    gang.start(2)
    expect_rows(gang.batches(2), first=0)
    gang.finish()


def test_pods_stop_within_seconds_and_leave_nothing(job) -> None:
    gang = InputGang(job, num_systems=1, workers_per_system=1)
    gang.load(run_request("rows", 3, num_rows=100, batch_size=5))
    (streamer,) = streamer_pids(gang)
    for pod in gang.pods:
        pod.pod.Stop(pods_pb2.StopRequest(reason="test"))
    assert [pod.wait() for pod in gang.pods] == [0, 0]
    wait_until(lambda: not is_alive(streamer), seconds=SECONDS, what="the streamer's end")
    assert not list(job.runtime_dir.glob("streamer-*"))
