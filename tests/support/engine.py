"""The engine's pods as real processes; the test plays the coordinator and the input pods."""

import contextlib
import itertools
import os
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from appliance.coordinator.run.kernel_selection import KernelSelection
from appliance.core.cluster.run import RunSchedule
from appliance.core.cluster.swarmx_tree import MAX_FAN_OUT, swarmx_tree
from appliance.core.errors import StreamClosedError
from appliance.core.ir.sharding import split_batch
from appliance.core.plans.plan_text import print_plan
from appliance.core.plans.shard_plans import shard_plans
from appliance.core.pods.pod_spec import stream_address
from appliance.streams import stream_topology as topology
from appliance.streams.shared_memory import connect_ring, serve_ring
from appliance.streams.store import attach_store
from protos.wsc.v1 import pods_pb2
from tests.support import kept_machine_code
from tests.support.pod_processes import SECONDS, make_job

DEVICE = os.environ.get("WSC_TEST_DEVICE", "cpu")
"""What systems compute on: `cpu`, or `cuda` to run the tests of engines on such a device."""
of_processors = pytest.mark.skipif(DEVICE != "cpu", reason="says something of processors alone")


@dataclass
class SessionResult:
    """What a session yielded.

    Attributes:
        outputs: For each step that keeps outputs, the tensors by output name and `step`.
        snapshots: For each checkpoint step, the state by resource name.
        readings: The readings of each pod after the last step, by role and index.
    """

    outputs: list = field(default_factory=list)
    snapshots: dict = field(default_factory=dict)
    readings: dict = field(default_factory=dict)


class Engine:
    """The weight pods, a tree of broadcastreduce pods and the chiefs, all running."""

    def __init__(
        self, job, num_systems, fan_out, options, num_shards=1, *, chief_module="workers.csx"
    ):
        options = {"streams": "ring", **options}
        threads = options.pop("threads", "1")  # of each system
        self.job, self.num_systems, self.fan_out = job, num_systems, fan_out
        self.weights = [
            job.launch("workers.memoryx", "weight", shard, **options) for shard in range(num_shards)
        ]
        self.weight = self.weights[0]
        self.swarmx = [
            job.launch("workers.swarmx", "broadcastreduce", pod.index, **options)
            for pod in swarmx_tree(num_systems, fan_out=fan_out)
        ]
        self.broadcastreduce = self.swarmx[0]
        self.chiefs = [
            job.launch(chief_module, "chief", index, **{**options, "torch_threads": threads})
            for index in range(num_systems)
        ]
        self.pods = [*self.weights, *self.swarmx, *self.chiefs]
        job.wait_until_registered()
        self._rings = []
        self._threads = []

    def address(self, session, stream):
        return stream_address(self.job.runtime_dir, session, stream)

    def load(self, plan, session=1):
        request = pods_pb2.LoadRequest(
            session=session,
            plan=print_plan(plan).encode(),
            num_systems=self.num_systems,
            fan_out=self.fan_out,
            num_shards=len(self.weights),
        )
        for process in self.pods:
            address = self.job.coordinator.registered[process.spec.name].stream_address
            request.stream_addresses[process.spec.member] = address
        for pod in self.pods:
            pod.pod.Load(request)

    def choose_kernels(self, table, session=1):
        """Choose what the systems compute by, as a coordinator does.

        Args:
            table: A `KernelTable`.
            session: That is loaded.
        """

        def ask(system, method, request, reply_type):
            reply = getattr(self.chiefs[system].kernels, method)(request)
            assert isinstance(reply, reply_type)
            return reply

        KernelSelection(self.num_systems, ask, table).apply(session)

    def ingest(self, plan, state, session=1):
        """Write the state tensors that are given; return how many are still missing."""
        num_missing = 0
        for shard in shard_plans(plan, len(self.weights)):
            with attach_store(self.address(session, topology.store(shard.index))) as store:
                memory = store.attach(topology.STATE_SEGMENT)
                views = topology.state_layout(shard.plan).views(memory)
                given = [t for t in shard.plan.state if t.resource_name in state]
                for tensor in given:
                    views[tensor.value][...] = state[tensor.resource_name]
            names = [tensor.resource_name for tensor in given]
            if len(self.weights) == 1:
                names = list(state)
            request = pods_pb2.CommitIngestRequest(session=session, resource_names=names)
            num_missing += self.weights[shard.index].memoryx.CommitIngest(request).num_missing
        return num_missing

    def feed(self, plan, batches, session=1, *, endless=False):
        """Begin to play the input pods; endless ones begin again after the last batch."""
        shards = split_batch(plan.batch_size, self.num_systems)
        for system, shard in enumerate(shards):
            layout = topology.batch_layout(plan, shard)
            ring = serve_ring(
                self.address(session, topology.batches(system)),
                name=topology.batches(system),
                num_slots=topology.NUM_BATCH_SLOTS,
                slot_bytes=layout.num_bytes,
                num_readers=1,
            )
            self._rings.append(ring)
            arguments = (ring, layout, shard, itertools.cycle(batches) if endless else batches)
            thread = threading.Thread(target=_feed, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)

    def start(self, plan, schedule, session=1):
        self.take_outputs(plan, session)
        request = pods_pb2.StartRequest(
            session=session,
            num_steps=schedule.num_steps,
            output_interval=schedule.output_interval,
            checkpoint_steps=sorted(schedule.checkpoint_steps),
            first_step=schedule.first_step,
        )
        for pod in self.pods:
            pod.pod.Start(request)

    def take_outputs(self, plan, session=1):
        """Begin to play the coordinator that reads the outputs."""
        ring = connect_ring(
            self.address(session, topology.OUTPUTS), name=topology.OUTPUTS, timeout_seconds=SECONDS
        )
        layout = topology.output_layout(plan)
        self._outputs = []
        arguments = (ring, layout, self._outputs)
        self._reader = threading.Thread(target=_read, args=arguments, daemon=True)
        self._reader.start()

    def outputs(self, timeout_seconds=SECONDS):
        """Return the outputs of all steps, once the last has come."""
        self._reader.join(timeout_seconds)
        assert not self._reader.is_alive()
        return self._outputs

    def snapshot(self, plan, step_number, session=1):
        found = {}
        for shard in shard_plans(plan, len(self.weights)):
            memoryx = self.weights[shard.index].memoryx
            items = {item.name: item for item in topology.state_layout(shard.plan).items}
            with attach_store(self.address(session, topology.store(shard.index))) as store:
                for tensor in shard.plan.state:
                    request = pods_pb2.LocateSnapshotRequest(
                        session=session, step=step_number, resource_name=tensor.resource_name
                    )
                    segment = memoryx.LocateSnapshot(request).segment
                    found[tensor.resource_name] = np.array(
                        items[tensor.value].view(store.attach(segment))
                    )
        return found

    def finish(self, session=1, wait_for_steps=True):
        request = pods_pb2.FinishRequest(session=session, wait_for_steps=wait_for_steps)
        steps = [pod.pod.Finish(request, timeout=SECONDS).steps_completed for pod in self.pods]
        self.stop_feeding()
        return steps

    def stop_feeding(self):
        for ring in self._rings:
            ring.close()
        for thread in self._threads:
            thread.join()
        self._rings, self._threads = [], []

    def readings(self, process):
        return dict(self.job.coordinator.next_heartbeat(process.spec.name).readings)

    def run(
        self,
        plan,
        state,
        batches,
        *,
        session=1,
        output_interval=1,
        checkpoint_steps=(),
        kernels=None,
    ):
        """Run a whole session and return what it yielded.

        Kernels are chosen by a `KernelTable`; without one by rule.
        """
        schedule = RunSchedule(
            num_steps=len(batches),
            output_interval=output_interval,
            checkpoint_steps=frozenset(checkpoint_steps),
        )
        result = SessionResult()
        self.load(plan, session)
        if kernels is not None:
            self.choose_kernels(kernels, session)
        assert self.ingest(plan, state, session) == 0
        self.feed(plan, batches, session)
        self.start(plan, schedule, session)
        result.outputs = self.outputs()
        for process in self.pods:
            result.readings[process.spec.role.value, process.spec.index] = self.readings(process)
        assert self.finish(session) == [len(batches)] * len(self.pods)
        for number in checkpoint_steps:
            result.snapshots[number] = self.snapshot(plan, number, session)
        return result


def _read(ring, layout, outputs):
    with ring, contextlib.suppress(StreamClosedError):
        while (slot := ring.acquire()) is not None:
            outputs.append({name: np.array(view) for name, view in layout.views(slot).items()})
            ring.release()


def _feed(ring, layout, shard, batches):
    part = slice(shard.offset, shard.offset + shard.size)
    with contextlib.suppress(StreamClosedError):
        for batch in batches:
            for name, view in layout.views(ring.reserve()).items():
                view[...] = batch[name][part]
            ring.publish()
        ring.end()


def separate_hosts(num_systems, fan_out=MAX_FAN_OUT, num_shards=1):
    """Return hosts that leave only a system and its input together."""
    systems = range(num_systems)
    pods = swarmx_tree(num_systems, fan_out=fan_out)
    return {
        **{f"weight-{shard}": f"memoryx-{shard}" for shard in range(num_shards)},
        **{f"broadcastreduce-{pod.index}": f"swarmx-{pod.index}" for pod in pods},
        **{f"chief-{system}": f"csx-{system}" for system in systems},
        **{f"activation-{system}": f"csx-{system}" for system in systems},
    }


@contextlib.contextmanager
def make_engine(
    directory,
    *,
    num_systems,
    num_shards=1,
    fan_out=MAX_FAN_OUT,
    hosts=(),
    places=(),
    chief_module="workers.csx",
    own_interpreters=False,
    **options,
):
    """Yield a running engine; prints the pods' logs if the test fails.

    As an appliance's, its pods keep machine code for those of the next; with interpreters of their
    own, which are measured, they do not.
    """
    options = {"device": DEVICE, **options}
    if not own_interpreters:
        options = {"machine_code": str(kept_machine_code.directory()), **options}
    with make_job(directory, hosts, places, own_interpreters=own_interpreters) as job:
        engine = Engine(job, num_systems, fan_out, options, num_shards, chief_module=chief_module)
        try:
            yield engine
        finally:
            engine.stop_feeding()
